package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A deed is something that happens in a story, beside the events of the library (an [rmqdedup.EventKind]).
type deed string

func (d deed) String() string { return string(d) }

const (
	// What a handler does with a message.
	started   deed = "started"
	succeeded deed = "succeeded"
	failed    deed = "failed"
	panicked  deed = "panicked"
	// What the client is told of it.
	acknowledged deed = "acknowledged"
	sentBack     deed = "sent back"
	suspended    deed = "suspended"
	letGo        deed = "let go" // a drain: the client throws the answer away
	// What becomes of its claim.
	renewed    deed = "renewed"
	unanswered deed = "unanswered" // the store did not say whether it is claimed
	// What becomes of a member.
	killed deed = "killed"
)

// deeds are all of them.
var deeds = map[deed]bool{
	started: true, succeeded: true, failed: true, panicked: true, acknowledged: true, sentBack: true, suspended: true, letGo: true,
	renewed: true, unanswered: true, killed: true,
}

// An entry says what happened to one message.
type entry struct {
	at      time.Duration // since the story began
	member  string
	what    string // a deed or an event
	name    string // the message's
	attempt int32
	op      rmqdedup.Op
	detail  string
	of      string // the ID of the message whose record was found
}

// A journal is what happened in a story, told by all its members in one order.
type journal struct {
	begun time.Time
	echo  func(entry) // hears of every entry, where there is one

	mu      sync.Mutex
	entries []entry
	running map[string]int // handlers at work, by the message's name
	overlap []string       // names that had two at once
	changed chan struct{}  // closed and made anew at every entry
}

func newJournal() *journal {
	return &journal{begun: time.Now(), running: make(map[string]int), changed: make(chan struct{})}
}

// add notes an entry.
func (j *journal) add(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.at = time.Since(j.begun)
	if j.echo != nil {
		j.echo(e)
	}
	j.entries = append(j.entries, e)
	switch {
	case deed(e.what) == started:
		if j.running[e.name]++; j.running[e.name] > 1 {
			j.overlap = append(j.overlap, e.name)
		}
	case ends(e.what):
		j.running[e.name]--
	case deed(e.what) == killed: // with its handlers
		for _, o := range j.entries {
			switch {
			case o.member != e.member:
			case deed(o.what) == started:
				j.running[o.name]--
			case ends(o.what):
				j.running[o.name]++
			}
		}
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

func ends(what string) bool {
	d := deed(what)
	return d == succeeded || d == failed || d == panicked
}

// all returns the entries of what happened to a message; "" stands for any message.
func (j *journal) all(what fmt.Stringer, name string) (found []entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		if e.what == what.String() && (name == "" || e.name == name) {
			found = append(found, e)
		}
	}
	return found
}

// wait returns when cond holds, which it asks at every entry, or when ctx ends.
func (j *journal) wait(ctx context.Context, cond func() bool) error {
	for {
		j.mu.Lock()
		changed := j.changed
		j.mu.Unlock()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// order returns the names of the story's messages in the order in which something happened to them.
func (j *journal) order(what fmt.Stringer) (names []string) {
	for _, e := range j.all(what, "") {
		if !isProbe(e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

// String is the journal for people.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	for _, e := range j.entries {
		fmt.Fprintf(&b, "%7.3fs  %-8s %-14s %-22s attempt %d", e.at.Seconds(), e.member, e.name, e.what, e.attempt)
		if e.op != 0 {
			fmt.Fprintf(&b, " %v", e.op)
		}
		if e.detail != "" {
			fmt.Fprintf(&b, "  %.300s", e.detail)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// labelled is the property that names a message in its journal, where its KEYS do not.
const labelled = "E2E_NAME"

func nameOf(m *primitive.Message) string {
	if name := m.GetProperty(labelled); name != "" {
		return name
	}
	return m.GetKeys()
}

// isProbe says whether the harness itself sent the message, to learn who reads a queue.
func isProbe(name string) bool { return strings.HasPrefix(name, "probe-") }

// handler notes what h does with each message.
func (j *journal) handler(member string, h rmqdedup.Handler) rmqdedup.Handler {
	return func(ctx context.Context, msgs ...*primitive.MessageExt) (result consumer.ConsumeResult, err error) {
		given := slices.Clone(msgs)
		note := func(what deed, detail any) {
			for _, m := range given {
				j.add(entry{member: member, what: what.String(), name: nameOf(&m.Message), attempt: m.ReconsumeTimes, detail: text(detail)})
			}
		}
		note(started, nil)
		defer func() {
			switch p := recover(); {
			case p != nil:
				note(panicked, p)
				panic(p)
			case result == consumer.ConsumeSuccess || result == consumer.Commit:
				note(succeeded, err)
			default:
				note(failed, err)
			}
		}()
		if isProbe(nameOf(&msgs[0].Message)) {
			return consumer.ConsumeSuccess, nil
		}
		return h(ctx, msgs...)
	}
}

func text(detail any) string {
	if detail == nil {
		return ""
	}
	return fmt.Sprint(detail)
}

// observer notes what the library tells of a member.
func (j *journal) observer(member string) rmqdedup.Observer { return observer{j: j, member: member} }

type observer struct {
	rmqdedup.NopObserver
	j      *journal
	member string
}

// Event notes an event.
func (o observer) Event(_ context.Context, e rmqdedup.Event) {
	n := entry{member: o.member, what: e.Kind.String(), name: e.Key.Value, op: e.Op, detail: e.Detail}
	if e.Message != nil { // what happens in the background has none
		n.name, n.attempt = nameOf(&e.Message.Message), e.Message.ReconsumeTimes
	}
	if e.Record != nil {
		n.of = e.Record.MessageID
	}
	if e.Left > 0 {
		n.detail += fmt.Sprintf("left %v ", e.Left)
	}
	if e.Err != nil {
		n.detail += e.Err.Error()
	}
	o.j.add(n)
}

// store notes what becomes of claims.
func (j *journal) store(next rmqdedup.Store) rmqdedup.Store {
	return rmqdedup.Intercept(next, func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		answers, err := rmqdedup.Do(ctx, next, op, reqs)
		for i, r := range reqs {
			var what deed
			switch {
			case op == rmqdedup.OpAcquire && (err != nil || answers[i].Err != nil):
				what = unanswered
			case op == rmqdedup.OpRenew && err == nil && answers[i].Outcome == rmqdedup.Applied:
				what = renewed
			default:
				continue
			}
			j.add(entry{what: what.String(), name: r.Key.Value, attempt: int32(r.Attempt), detail: text(err)})
		}
		return answers, err
	})
}

// End notes the answer.
func (o observer) End(_ context.Context, d rmqdedup.Delivery, r rmqdedup.Result) {
	what := sentBack
	switch {
	case r.Held:
		what = letGo
	case r.Answer == consumer.ConsumeSuccess:
		what = acknowledged
	case r.Answer == consumer.SuspendCurrentQueueAMoment:
		what = suspended
	}
	for _, m := range d.Messages {
		o.j.add(entry{member: o.member, what: what.String(), name: nameOf(&m.Message), attempt: m.ReconsumeTimes, detail: text(r.Elapsed.Round(time.Millisecond))})
	}
}
