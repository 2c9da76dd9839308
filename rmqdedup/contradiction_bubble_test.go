package rmqdedup_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// What a delivery shows of its consumer may not be what the wrapper was told: it is answered in its own mode's way, and told.
func TestContradictions(t *testing.T) {
	tests := []struct {
		name    string
		cfg     rmqdedup.Config
		deliver func(rmqdedup.Handler, ...*primitive.MessageExt) reply
		m       *primitive.MessageExt
		want    reply
		told    string // "": nothing
	}{
		{"an ordered call of a concurrent one", rmqdedup.Config{}, orderly, order("1"),
			suspended, "calls in ordered mode, but Config.Mode is concurrent"},
		{"a concurrent call of an ordered one", rmqdedup.Config{Mode: rmqdedup.Ordered}, concurrently, order("1"),
			sentBack, "calls in concurrent mode, but Config.Mode is ordered"},
		{"more attempts than told", rmqdedup.Config{MaxReconsumeTimes: 3}, concurrently, order("1", attempt(4)),
			sentBack, "MaxReconsumeTimes (3)"},
		{"as many as told", rmqdedup.Config{MaxReconsumeTimes: 3}, concurrently, order("1", attempt(3)), sentBack, ""},
		{"more than the default", rmqdedup.Config{}, concurrently, order("1", attempt(17)), sentBack, "MaxReconsumeTimes (-1)"},
		{"more attempts of an ordered one", rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: 3}, orderly, order("1", attempt(5)),
			suspended, "MaxReconsumeTimes (3)"},
		{"as many of an ordered one", rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: 3}, orderly, order("1", attempt(4)), suspended, ""},
		{"no limit of an ordered one", rmqdedup.Config{Mode: rmqdedup.Ordered}, orderly, order("1", attempt(1<<31-1)), suspended, ""},
		{"never again", rmqdedup.Config{MaxReconsumeTimes: rmqdedup.NoReconsume}, concurrently, order("1", attempt(1)), sentBack, "MaxReconsumeTimes (-2)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, tt.cfg)
				wantReply(t, tt.deliver(n.Wrap(answer(consumer.Rollback, nil)), tt.m), tt.want)
				n.wantState(t, "1", rmqdedup.Absent)
				told := n.heard.of(rmqdedup.EventContradiction)
				switch {
				case tt.told == "" && len(told) > 0:
					t.Errorf("told %v", told[0].Err)
				case tt.told != "" && (len(told) != 1 || !strings.Contains(told[0].Err.Error(), tt.told)):
					t.Errorf("told %+v, want %q", told, tt.told)
				}
			})
		})
	}
}

func TestAnotherGroupsConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		listen := n.Wrap(answer(consumer.ConsumeSuccess, nil))
		for _, name := range []string{"other-group", group, ""} {
			ctx := primitive.WithConcurrentlyCtx(context.Background(), primitive.NewConsumeConcurrentlyContext())
			ctx = primitive.WithConsumerCtx(ctx, &primitive.ConsumeMessageContext{ConsumerGroup: name})
			if result, err := listen(ctx, order("1")); result != consumer.ConsumeSuccess || err != nil {
				t.Errorf("group %q: %v, %v", name, result, err)
			}
		}
		if told := n.heard.of(rmqdedup.EventContradiction); len(told) != 1 || !strings.Contains(told[0].Err.Error(), `"other-group"`) {
			t.Errorf("told %+v", told)
		}
	})
}

// An admin's "consume directly" reaches an ordered consumer with a concurrent context. It works as ever: once only, in that mode's way.
func TestConsumeDirectlyOnAnOrderedConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Mode: rmqdedup.Ordered})
		var r runs
		wantReply(t, concurrently(n.Wrap(r.fail()), order("1")), reply{result: consumer.ConsumeRetryLater, err: errBusiness})
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), acknowledged)
		wantReply(t, orderly(n.Wrap(r.succeed()), order("1")), orderlyDone)
		r.want(t, "1, 1")
		// In flight it is answered at once, rather than waited for.
		n.claimElsewhere(t, "2", time.Second, 0)
		begin := time.Now()
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("2")), reply{result: consumer.ConsumeRetryLater, level: 3})
		if time.Since(begin) != 0 {
			t.Errorf("answered after %v", time.Since(begin))
		}
	})
}

// A contradiction is told with each delivery, for those who count, and logged once a kind.
func TestContradictionIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := newNode(t, rmqdedup.Config{MaxReconsumeTimes: 1, Observer: rmqdedup.Log(slog.New(slog.NewTextHandler(&out, nil)))})
		listen := n.Wrap(answer(consumer.ConsumeSuccess, nil))
		for _, id := range []string{"1", "2", "3"} {
			concurrently(listen, order(id, attempt(2)))
			orderly(listen, order(id))
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventContradiction: 6})
		if times := strings.Count(out.String(), "level=ERROR msg=\"rmqdedup: contradiction\""); times != 2 {
			t.Errorf("logged %d times:\n%s", times, &out)
		}
	})
}

// Case 25: a broadcast consumer is refused, rather than one instance silencing another.
func TestCase25Broadcast(t *testing.T) {
	_, err := rmqdedup.New(memoryStore(t), group, rmqdedup.Config{Key: rmqdedup.Keys, Mode: rmqdedup.Broadcasting, Observer: rmqdedup.NopObserver{}})
	if err == nil || !strings.Contains(err.Error(), "Broadcasting") {
		t.Errorf("New returned %v", err)
	}
	d, err := rmqdedup.New(memoryStore(t), group, rmqdedup.Config{Key: rmqdedup.Keys, Observer: rmqdedup.NopObserver{}})
	if err != nil {
		t.Fatal(err)
	}
	model := applied(append([]consumer.Option{consumer.WithConsumerModel(consumer.BroadCasting)}, d.ConsumerOptions()...)).FieldByName("ConsumerModel")
	if model.Interface() != consumer.Clustering {
		t.Errorf("ConsumerOptions make a consumer of model %v", model)
	}
}
