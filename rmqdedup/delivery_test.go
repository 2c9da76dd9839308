package rmqdedup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
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
