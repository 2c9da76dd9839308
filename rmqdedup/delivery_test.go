package rmqdedup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// What the tests of this package are written in: messages, deliveries as the client makes them, handlers, and members of a
// consumer group.

const group = "order-group"

// order returns a message about an order as the client hands it out, with the order's ID in KEYS. changes are made to it last.
func order(id string, changes ...func(*primitive.MessageExt)) *primitive.MessageExt {
	m := &primitive.MessageExt{MsgId: "uniq-" + id, OffsetMsgId: "offset-" + id}
	m.Topic = "orders"
	m.Body = []byte(`{"order":{"id":"` + id + `"}}`)
	m.WithTag("paid")
	m.WithKeys([]string{id})
	m.WithProperty(primitive.PropertyUniqueClientMessageIdKeyIndex, "uniq-"+id)
	for _, change := range changes {
		change(m)
	}
	return m
}

// orders returns one message for each ID.
func orders(ids ...string) []*primitive.MessageExt {
	msgs := make([]*primitive.MessageExt, len(ids))
	for i, id := range ids {
		msgs[i] = order(id)
	}
	return msgs
}

// attempt makes a message one that was delivered n times before.
func attempt(n int32) func(*primitive.MessageExt) {
	return func(m *primitive.MessageExt) { m.ReconsumeTimes = n }
}

// sentAs gives a message another ID: the same order, sent once more.
func sentAs(id string) func(*primitive.MessageExt) {
	return func(m *primitive.MessageExt) {
		m.MsgId = id
		m.WithProperty(primitive.PropertyUniqueClientMessageIdKeyIndex, id)
	}
}

func withBody(body string) func(*primitive.MessageExt) {
	return func(m *primitive.MessageExt) { m.Body = []byte(body) }
}

// keyOf is the key under which the store knows an order, with the key function Keys.
func keyOf(id string) rmqdedup.Key {
	return rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, group, "orders", "paid", id)
}

// A reply is what a delivery leaves the client with.
type reply struct {
	result  consumer.ConsumeResult
	err     error
	level   int // of a concurrent delivery: the delay level for the send-back
	suspend int // of an ordered one: how many milliseconds the queue pauses
}

// concurrently delivers as the client's concurrent consumer does.
func concurrently(listen rmqdedup.Handler, msgs ...*primitive.MessageExt) reply {
	c := primitive.NewConsumeConcurrentlyContext()
	result, err := listen(primitive.WithConcurrentlyCtx(consumerContext(msgs), c), msgs...)
	return reply{result: result, err: err, level: c.DelayLevelWhenNextConsume}
}

// orderly delivers as the client's ordered consumer does.
func orderly(listen rmqdedup.Handler, msgs ...*primitive.MessageExt) reply {
	c := primitive.NewConsumeOrderlyContext()
	result, err := listen(primitive.WithOrderlyCtx(consumerContext(msgs), c), msgs...)
	return reply{result: result, err: err, suspend: c.SuspendCurrentQueueTimeMillis}
}

func consumerContext(msgs []*primitive.MessageExt) context.Context {
	ctx := primitive.WithMethod(context.Background(), primitive.ConsumerPush)
	return primitive.WithConsumerCtx(ctx, &primitive.ConsumeMessageContext{
		ConsumerGroup: group, Msgs: msgs, Properties: make(map[string]string),
		MQ: &primitive.MessageQueue{Topic: "orders", BrokerName: "broker-a"},
	})
}

// deliverers are both ways of delivery, for tests that do not depend on the mode.
var deliverers = []struct {
	mode    rmqdedup.Mode
	deliver func(rmqdedup.Handler, ...*primitive.MessageExt) reply
	retry   consumer.ConsumeResult
}{
	{rmqdedup.Concurrent, concurrently, consumer.ConsumeRetryLater},
	{rmqdedup.Ordered, orderly, consumer.SuspendCurrentQueueAMoment},
}

// later delivers in a goroutine of its own; the reply comes through the channel.
func later(deliver func() reply) <-chan reply {
	c := make(chan reply, 1)
	go func() { c <- deliver() }()
	return c
}

// answered says whether a delivery that was made with later has its reply by now. It is for bubbles.
func answered(c <-chan reply) bool {
	synctest.Wait()
	return len(c) > 0
}

var errBusiness = errors.New("the business said no")

// answer is a handler that gives always the same answer.
func answer(result consumer.ConsumeResult, err error) rmqdedup.Handler {
	return func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) { return result, err }
}

// runs notes what handlers were called with.
type runs struct {
	mu    sync.Mutex
	calls [][]string // the IDs of each call's orders
}

// then returns a handler that notes its call and goes on as next does.
func (r *runs) then(next rmqdedup.Handler) rmqdedup.Handler {
	return func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		ids := make([]string, len(msgs))
		for i, m := range msgs {
			ids[i] = m.GetKeys()
		}
		r.mu.Lock()
		r.calls = append(r.calls, ids)
		r.mu.Unlock()
		return next(ctx, msgs...)
	}
}

// succeed and fail are the two handlers that most tests need.
func (r *runs) succeed() rmqdedup.Handler { return r.then(answer(consumer.ConsumeSuccess, nil)) }
func (r *runs) fail() rmqdedup.Handler {
	return r.then(answer(consumer.ConsumeRetryLater, errBusiness))
}

// String lists the calls, as in "1 2, 3": one of two orders, then one of a third.
func (r *runs) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := make([]string, len(r.calls))
	for i, ids := range r.calls {
		calls[i] = strings.Join(ids, " ")
	}
	return strings.Join(calls, ", ")
}

func (r *runs) want(t *testing.T, calls string) {
	t.Helper()
	if got := r.String(); got != calls {
		t.Errorf("the handler was called with %q, want %q", got, calls)
	}
}

// blocked returns a handler that tells of its start, then waits until it is let go or its context is cancelled, and succeeds or
// returns the cause.
func blocked() (h rmqdedup.Handler, started <-chan struct{}, letGo func()) {
	begin, end := make(chan struct{}, 100), make(chan struct{})
	return func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		begin <- struct{}{}
		select {
		case <-end:
			return consumer.ConsumeSuccess, nil
		case <-ctx.Done():
			return consumer.ConsumeRetryLater, context.Cause(ctx)
		}
	}, begin, sync.OnceFunc(func() { close(end) })
}

// A node is a member of the consumer group: a wrapper, its way to the store, which can be made to fail, and what it told.
type node struct {
	*rmqdedup.Dedup
	*faults
	heard *hearing
	table *memory.Store // which all nodes share
}

// newNode returns the first member of a group. It is closed when the test ends.
func newNode(t *testing.T, cfg rmqdedup.Config) *node {
	t.Helper()
	table, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return nodeOn(t, table, cfg)
}

// another returns a further member of n's group.
func (n *node) another(t *testing.T, cfg rmqdedup.Config) *node {
	t.Helper()
	return nodeOn(t, n.table, cfg)
}

func nodeOn(t *testing.T, table *memory.Store, cfg rmqdedup.Config) *node {
	t.Helper()
	n := &node{faults: &faults{}, heard: &hearing{}, table: table}
	if cfg.Key == nil {
		cfg.Key = rmqdedup.Keys
	}
	if cfg.Observer == nil {
		cfg.Observer = n.heard
	} else {
		cfg.Observer = rmqdedup.Observers(n.heard, cfg.Observer)
	}
	d, err := rmqdedup.New(rmqdedup.Intercept(table, n.intercept), group, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Dedup = d
	t.Cleanup(func() {
		n.set(nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return n
}

// wantState checks what the store has for an order.
func (n *node) wantState(t *testing.T, id string, want rmqdedup.Outcome) rmqdedup.Answer {
	t.Helper()
	got := lookup(t, n.table, keyOf(id))
	if got.Outcome != want {
		t.Errorf("the store has order %s as %v, want %v", id, got.Outcome, want)
	}
	return got
}

func lookup(t *testing.T, s rmqdedup.Store, key rmqdedup.Key) rmqdedup.Answer {
	t.Helper()
	answers, err := s.Lookup(context.Background(), []rmqdedup.Request{{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	return answers[0]
}

// claimElsewhere claims an order as a process would that the test knows nothing else of.
func (n *node) claimElsewhere(t *testing.T, id string, lease, grace time.Duration) rmqdedup.Request {
	t.Helper()
	r := rmqdedup.Request{Key: keyOf(id), Owner: rmqdedup.NewOwner(), Lease: lease, Grace: grace, Retention: time.Hour,
		MessageID: "uniq-" + id, Fingerprint: rmqdedup.Fingerprint(order(id).Body)}
	n.applyElsewhere(t, rmqdedup.OpAcquire, r)
	return r
}

func (n *node) applyElsewhere(t *testing.T, op rmqdedup.Op, r rmqdedup.Request) {
	t.Helper()
	answers, err := rmqdedup.Do(context.Background(), n.table, op, []rmqdedup.Request{r})
	if err = errors.Join(err, answers[0].Err); err != nil {
		t.Fatal(err)
	}
}

// hearing is an observer that remembers everything.
type hearing struct {
	mu      sync.Mutex
	events  []rmqdedup.Event
	results []rmqdedup.Result
}

func (h *hearing) Begin(ctx context.Context, _ rmqdedup.Delivery) context.Context { return ctx }

func (h *hearing) End(_ context.Context, _ rmqdedup.Delivery, r rmqdedup.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results = append(h.results, r)
}

func (h *hearing) Event(_ context.Context, e rmqdedup.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// of returns the events of a kind.
func (h *hearing) of(kind rmqdedup.EventKind) []rmqdedup.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []rmqdedup.Event
	for _, e := range h.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// last returns the result of the delivery that was answered last.
func (h *hearing) last() rmqdedup.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.results) == 0 {
		return rmqdedup.Result{}
	}
	return h.results[len(h.results)-1]
}

// want checks how often each of some kinds of events was heard.
func (h *hearing) want(t *testing.T, counts map[rmqdedup.EventKind]int) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if got := len(h.of(kind)); got != counts[kind] {
			t.Errorf("heard %q %d times, want %d", kind, got, counts[kind])
		}
	}
}

// wantReply checks a reply's result, and its level or pause where they are given.
func wantReply(t *testing.T, got, want reply) {
	t.Helper()
	if !errors.Is(got.err, want.err) || (got.err != nil) != (want.err != nil) {
		t.Errorf("the reply's error is %v, want %v", got.err, want.err)
	}
	got.err, want.err = nil, nil
	if got != want {
		t.Errorf("the reply is %s, want %s", describe(got), describe(want))
	}
}

func describe(r reply) string {
	return fmt.Sprintf("%s (delay level %d, pause %d ms)", resultName(r.result), r.level, r.suspend)
}

func resultName(r consumer.ConsumeResult) string {
	switch r {
	case consumer.ConsumeSuccess:
		return "ConsumeSuccess"
	case consumer.ConsumeRetryLater:
		return "ConsumeRetryLater"
	case consumer.Commit:
		return "Commit"
	case consumer.Rollback:
		return "Rollback"
	case consumer.SuspendCurrentQueueAMoment:
		return "SuspendCurrentQueueAMoment"
	}
	return fmt.Sprint(int(r))
}

// The replies that most tests expect.
var (
	acknowledged = reply{result: consumer.ConsumeSuccess}
	sentBack     = reply{result: consumer.ConsumeRetryLater} // at the level that the broker chooses
	orderlyDone  = reply{result: consumer.ConsumeSuccess, suspend: -1}
	suspended    = reply{result: consumer.SuspendCurrentQueueAMoment, suspend: 1000}
)
