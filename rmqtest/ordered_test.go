package rmqtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

func skipRaces(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("ordered consumption has a data race inside the client: run without -race")
	}
	t.Parallel()
}

// An ordered consumer gets its first message 3 s after its start.

func TestOrdered(t *testing.T) {
	skipRaces(t)
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	w := newWorker(t, b, "g", orders, nil, consumer.WithConsumerOrder(true))
	send(t, newProducer(t, b), orders, numbers(50)...)
	for i, m := range w.messages(t, 50) {
		equal(t, "body", string(m.Body), numbers(50)[i])
	}
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	equal(t, "lock", b.LockOwner("g", orders, 0), b.Members("g")[0])
	w.shutDown(t)
	equal(t, "lock after shutdown", b.LockOwner("g", orders, 0), "")
}

func TestOrderedSuspends(t *testing.T) {
	skipRaces(t)
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	send(t, newProducer(t, b), orders, "a", "b")
	got := make(chan string, 100)
	newWorker(t, b, "g", orders, func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got <- string(msgs[0].Body)
		if msgs[0].ReconsumeTimes < 2 && string(msgs[0].Body) == "a" {
			c, _ := primitive.GetOrderlyCtx(ctx)
			c.SuspendCurrentQueueTimeMillis = 1
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerOrder(true))
	for i, body := range takeN(t, got, 4) {
		equal(t, "body", body, []string{"a", "a", "a", "b"}[i])
	}
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	equal(t, "deliveries", len(b.Deliveries("g")), 2) // the client counts and repeats by itself
}

func TestOrderedUntilDead(t *testing.T) {
	skipRaces(t)
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	send(t, newProducer(t, b), orders, "x")
	attempts := make(chan int32, 100)
	newWorker(t, b, "g", orders, func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		attempts <- msgs[0].ReconsumeTimes
		c, _ := primitive.GetOrderlyCtx(ctx)
		c.SuspendCurrentQueueTimeMillis = 1
		return consumer.SuspendCurrentQueueAMoment, nil
	}, consumer.WithConsumerOrder(true), consumer.WithMaxReconsumeTimes(1))
	dead, err := b.WaitForMessages(ctx(t), rmqtest.DeadLetterTopic("g"), 1)
	must(t, err)
	equal(t, "attempts", len(attempts), 3) // one more than a concurrent consumer's
	equal(t, "ReconsumeTimes", dead[0].ReconsumeTimes, 1)
}

// The old owner does not unlock the queue that it loses, so the new one gets it at the balance after the lock's end.
func TestOrderedHandOver(t *testing.T) {
	skipRaces(t)
	b := start(t, rmqtest.Config{LongPoll: prompt.LongPoll, LockLife: 500 * time.Millisecond})
	orders := topic(t, b, "orders", 2)
	p := newProducer(t, b)
	first := newWorker(t, b, "g", orders, nil, consumer.WithConsumerOrder(true))
	send(t, p, orders, "a", "b", "c", "d")
	first.messages(t, 4)
	second := newWorker(t, b, "g", orders, nil, consumer.WithConsumerOrder(true))
	must(t, b.WaitForBalance(ctx(t), "g"))
	free := func() bool { return b.LockOwner("g", orders, 0) == "" || b.LockOwner("g", orders, 1) == "" }
	must(t, b.Wait(ctx(t), "a lock to end", free))
	must(t, b.Rebalance(ctx(t), "g"))
	send(t, p, orders, "e", "f", "g", "h")
	first.messages(t, 2)
	second.messages(t, 2)
}

func TestOrderedLocksSendRetriesToDeadLetters(t *testing.T) {
	skipRaces(t)
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	newWorker(t, b, "g", orders, nil, consumer.WithConsumerOrder(true))
	must(t, b.Wait(ctx(t), "the lock", func() bool { return b.LockOwner("g", orders, 0) != "" }))
	send(t, p, rmqtest.RetryTopic("g"), "x")
	equal(t, "dead", len(b.Messages(rmqtest.DeadLetterTopic("g"))), 1)
}
