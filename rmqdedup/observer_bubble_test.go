package rmqdedup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// scribe is an observer that writes down what it hears, under its name.
type scribe struct {
	rmqdedup.NopObserver
	name  string
	notes *[]string
}

type scribeKey struct{ name string }

func (s scribe) Begin(ctx context.Context, d rmqdedup.Delivery) context.Context {
	*s.notes = append(*s.notes, fmt.Sprintf("%s begins %d of %s in %v mode", s.name, len(d.Messages), d.Group, d.Mode))
	return context.WithValue(ctx, scribeKey{s.name}, true)
}

func (s scribe) End(ctx context.Context, _ rmqdedup.Delivery, r rmqdedup.Result) {
	*s.notes = append(*s.notes, fmt.Sprintf("%s ends %s, own context %v", s.name, resultName(r.Answer), ctx.Value(scribeKey{s.name}) != nil))
}

func (s scribe) Event(ctx context.Context, e rmqdedup.Event) {
	if e.Kind != rmqdedup.EventConfigured {
		*s.notes = append(*s.notes, fmt.Sprintf("%s hears %v, own context %v", s.name, e.Kind, ctx.Value(scribeKey{s.name}) != nil))
	}
}

// Several observers: Begin and Event in order, End in the reverse one, and what Begin returns is the parent of the handler's context.
func TestObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes []string
		n := newNode(t, rmqdedup.Config{Observer: rmqdedup.Observers(scribe{name: "A", notes: &notes}, rmqdedup.NopObserver{}, scribe{name: "B", notes: &notes})})
		listen := n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			if ctx.Value(scribeKey{"A"}) == nil || ctx.Value(scribeKey{"B"}) == nil {
				t.Error("the handler's context is not a child of the observers'")
			}
			time.Sleep(time.Second)
			return consumer.ConsumeSuccess, nil
		})
		concurrently(listen, order("1"))
		concurrently(listen, order("1"))
		want := []string{
			"A begins 1 of order-group in concurrent mode", "B begins 1 of order-group in concurrent mode",
			"B ends ConsumeSuccess, own context true", "A ends ConsumeSuccess, own context true",
			"A begins 1 of order-group in concurrent mode", "B begins 1 of order-group in concurrent mode",
			"A hears suppressed, own context true", "B hears suppressed, own context true",
			"B ends ConsumeSuccess, own context true", "A ends ConsumeSuccess, own context true",
		}
		if !slices.Equal(notes, want) {
			t.Errorf("heard\n%s\nwant\n%s", strings.Join(notes, "\n"), strings.Join(want, "\n"))
		}
		if elapsed := n.heard.results[0].Elapsed; elapsed != time.Second {
			t.Errorf("the first delivery took %v", elapsed)
		}
	})
}

// logged returns what Log makes of an event: the level, and the rest.
func logged(t *testing.T, e rmqdedup.Event) (level slog.Level, line string) {
	t.Helper()
	var out bytes.Buffer
	l := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.Attr{}
		case slog.LevelKey:
			level, _ = a.Value.Any().(slog.Level)
			return slog.Attr{}
		}
		return a
	}}))
	rmqdedup.Log(l).Event(context.Background(), e)
	return level, strings.TrimSpace(out.String())
}

func TestLogLevels(t *testing.T) {
	levels := map[slog.Level][]rmqdedup.EventKind{
		slog.LevelDebug: {rmqdedup.EventRepeated, rmqdedup.EventWriteLanded},
		slog.LevelInfo: {
			rmqdedup.EventSuppressed, rmqdedup.EventInFlight, rmqdedup.EventTakenOver, rmqdedup.EventConfigured, rmqdedup.EventLastAttempt,
		},
		slog.LevelWarn: {
			rmqdedup.EventBodyDiffers, rmqdedup.EventNoKey, rmqdedup.EventClaimLost, rmqdedup.EventUnprotected, rmqdedup.EventHeld, rmqdedup.EventStoreError,
			rmqdedup.EventSuccessWithError, rmqdedup.EventWritePending, rmqdedup.EventWarning,
		},
		slog.LevelError: {
			rmqdedup.EventPanic, rmqdedup.EventWriteDropped, rmqdedup.EventLastAttemptUnsettled, rmqdedup.EventBatchMateDeadLettered, rmqdedup.EventContradiction,
			rmqdedup.EventAfterClose,
		},
	}
	kinds := 0
	for level, of := range levels {
		for _, kind := range of {
			kinds++
			got, line := logged(t, rmqdedup.Event{Kind: kind, Group: group})
			if got != level || !strings.Contains(line, "rmqdedup: "+kind.String()) {
				t.Errorf("%v is logged at level %v as %s, want level %v", kind, got, line, level)
			}
		}
	}
	if all := int(rmqdedup.EventWarning); kinds != all {
		t.Errorf("%d kinds of %d are tested", kinds, all)
	}
}

func TestLogLine(t *testing.T) {
	owner := rmqdedup.NewOwner()
	_, line := logged(t, rmqdedup.Event{
		Kind: rmqdedup.EventSuppressed, Group: group, Key: keyOf("17"), Message: order("17", attempt(2), withBody("secret")), Owner: owner,
		Record: &rmqdedup.Record{MessageID: "uniq-16", Attempt: 1, DoneAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Left:   1500*time.Millisecond + 1, Op: rmqdedup.OpAcquire, Err: errBusiness, Detail: "some detail", Shadow: true,
	})
	want := `msg="rmqdedup: suppressed" group=order-group key="orders/paid: 17" msgID=uniq-17 attempt=2 recordedBy=uniq-16 recordedAttempt=1 ` +
		`doneAt=2026-01-02T03:04:05.000Z left=1.5s op=acquire err="the business said no" detail="some detail" shadow=true`
	if line != want {
		t.Errorf("logged\n%s\nwant\n%s", line, want)
	}
}

func TestLogOfLittle(t *testing.T) {
	_, line := logged(t, rmqdedup.Event{Kind: rmqdedup.EventHeld, Group: group, Record: &rmqdedup.Record{}})
	if want := `msg="rmqdedup: held" group=order-group`; line != want {
		t.Errorf("logged %s, want %s", line, want)
	}
}

func TestLogHeedsItsLevel(t *testing.T) {
	var out bytes.Buffer
	o := rmqdedup.Log(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	o.Event(context.Background(), rmqdedup.Event{Kind: rmqdedup.EventSuppressed})
	if out.Len() > 0 {
		t.Errorf("logged %s", &out)
	}
}

// Without an observer events go to the default logger, the one at the time of each event.
func TestLogIsTheDefault(t *testing.T) {
	var before, out bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&before, nil)))
	d, err := rmqdedup.New(memoryStore(t), group, rmqdedup.Config{Key: rmqdedup.Keys})
	if err != nil {
		t.Fatal(err)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	concurrently(d.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) { panic("boom") }), order("1"))
	if err := d.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(before.String(), "rmqdedup: configured") {
		t.Errorf("logged %q at construction", &before)
	}
	if !strings.Contains(out.String(), "rmqdedup: panic") || !strings.Contains(out.String(), "boom") {
		t.Errorf("logged %q", &out)
	}
}

// Whatever happens to a message, its body is in no log line.
func TestNoBodyIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "4111-1111-1111-1111"
		body := withBody(`{"card":"` + secret + `","id":true}`)
		var out bytes.Buffer
		log := rmqdedup.Log(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		n := newNode(t, rmqdedup.Config{Key: rmqdedup.JSONField("id"), Observer: log, MaxReconsumeTimes: 1})
		other := n.another(t, rmqdedup.Config{Key: rmqdedup.Keys, Observer: log, MaxReconsumeTimes: 1})
		for _, d := range []*node{n, other} {
			for _, h := range []rmqdedup.Handler{
				answer(consumer.ConsumeRetryLater, errBusiness), answer(consumer.ConsumeSuccess, errBusiness), answer(consumer.ConsumeSuccess, nil),
				func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
					panic(errors.New("boom"))
				},
			} {
				concurrently(d.Wrap(h), order("1", body, attempt(2)), order("1", body), order("2", withBody(secret)))
				orderly(d.Wrap(h), order("1", body))
			}
			d.set(away)
			concurrently(d.Wrap(answer(consumer.ConsumeSuccess, nil)), order("3", body, attempt(1)))
			d.set(nil)
			_ = d.Close(context.Background())
			concurrently(d.Wrap(answer(consumer.ConsumeSuccess, nil)), order("4", body))
		}
		if strings.Contains(out.String(), secret) {
			t.Error("a body is in the log")
		}
		if lines := strings.Count(out.String(), "\n"); lines < 20 {
			t.Errorf("only %d lines were logged: %s", lines, &out)
		}
	})
}
