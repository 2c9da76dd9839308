package rmqtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// impatient producers send again after a second without a reply.
var impatient = producer.WithSendMsgTimeout(time.Second)

func TestSendFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  func(*rmqtest.Broker)
		stored int
	}{
		"reply lost":    {func(b *rmqtest.Broker) { b.LoseReplies(rmqtest.Send, 1) }, 2},
		"request lost":  {func(b *rmqtest.Broker) { b.LoseRequests(rmqtest.Send, 1) }, 1},
		"cut":           {func(b *rmqtest.Broker) { b.CutAfter(rmqtest.Send, 1) }, 2},
		"slow":          {func(b *rmqtest.Broker) { b.Fault(2, slow(1500*time.Millisecond), rmqtest.Send) }, 3},
		"stored twice":  {func(b *rmqtest.Broker) { b.DoubleSends(1) }, 2},
		"refused":       {func(b *rmqtest.Broker) { b.Fault(3, rmqtest.Refuse(rmqtest.SystemError), rmqtest.Send) }, 1},
		"not on disk":   {func(b *rmqtest.Broker) { b.Fault(1, own(rmqtest.FlushDiskTimeout), rmqtest.Send) }, 1},
		"no fault":      {func(*rmqtest.Broker) {}, 1},
		"lifted":        {func(b *rmqtest.Broker) { b.LoseReplies(rmqtest.Send, -1)() }, 1},
		"of other code": {func(b *rmqtest.Broker) { b.LoseReplies(rmqtest.SendBatch, -1) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, rmqtest.Config{})
			orders := topic(t, b, "orders", 1)
			p := newProducer(t, b, impatient)
			c.fault(b)
			msg := message(orders, "x")
			_, err := p.SendSync(ctx(t), msg)
			must(t, err)
			all := b.Messages(orders)
			equal(t, "stored", len(all), c.stored)
			for _, m := range all {
				equal(t, "UNIQ_KEY", m.ID(), msg.GetProperty("UNIQ_KEY"))
			}
		})
	}
}

func slow(d time.Duration) rmqtest.Action {
	return rmqtest.Action{After: rmqtest.Pause{For: d}}
}

func own(status rmqtest.Status) rmqtest.Action {
	return rmqtest.Action{Answer: &rmqtest.Answer{Status: status}}
}

func TestHookHoldsRequest(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	free := make(chan struct{})
	remove := b.Hook(func(r *rmqtest.Request) rmqtest.Action {
		if r.Code == rmqtest.Send && r.Topic == orders && r.Group == "producers" && string(r.Body) == "held" {
			return rmqtest.Action{Before: rmqtest.Pause{Until: free}}
		}
		return rmqtest.Action{}
	})
	must(t, p.SendOneWay(ctx(t), message(orders, "held")))
	send(t, p, orders, "passes")
	equal(t, "stored", string(b.Messages(orders)[0].Body), "passes")
	close(free)
	_, err := b.WaitForMessages(ctx(t), orders, 2)
	must(t, err)
	remove()
	equal(t, "requests", b.RequestCount(rmqtest.Send), 2)
}

func TestDuplicate(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	w := newWorker(t, b, "g", orders, nil)
	send(t, newProducer(t, b), orders, "x")
	m := b.Messages(orders)[0]
	must(t, b.Duplicate(m))
	msgs := w.messages(t, 2)
	equal(t, "MsgId", msgs[0].MsgId, msgs[1].MsgId)
	equal(t, "deliveries", b.DeliveryCount("g", m.FirstID()), 2)
	m.CommitLogOffset = 1
	if b.Duplicate(m) == nil {
		t.Error("a message that does not exist was duplicated")
	}
}

func TestLoseCommits(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	first := newWorker(t, b, "g", orders, nil)
	send(t, p, orders, "a")
	first.messages(t, 1)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	hear := b.LoseCommits("g")
	send(t, p, orders, "b", "c")
	first.messages(t, 2)
	first.shutDown(t)
	hear()
	equal(t, "again", newWorker(t, b, "g", orders, nil).take(t, 2), "b c")
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
}

func TestReplay(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 2)
	w := newWorker(t, b, "g", orders, nil)
	send(t, newProducer(t, b), orders, numbers(10)...)
	want := w.take(t, 10)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	must(t, b.Replay(ctx(t), "g", orders, 0))
	equal(t, "again", w.take(t, 10), want)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	equal(t, "deliveries", len(b.Deliveries("g")), 20)
}

// A queue is taken from a member whose handler runs: its success is thrown away, and the message comes again.
func TestTakeQueuesInMidHandler(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	running, done := make(chan string, 10), make(chan struct{})
	w := newWorker(t, b, "g", orders, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		running <- string(msgs[0].Body)
		<-done
		return consumer.ConsumeSuccess, nil
	})
	send(t, newProducer(t, b), orders, "x")
	takeN(t, running, 1)
	giveBack, err := b.TakeQueues(ctx(t), "g", w.instance)
	must(t, err)
	close(done)
	must(t, giveBack(ctx(t)))
	takeN(t, running, 1)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	equal(t, "deliveries", len(b.Deliveries("g")), 2)

	if _, err := b.TakeQueues(ctx(t), "g", "nobody"); err == nil {
		t.Error("queues were taken from a member that does not exist")
	}
}

// The same with another member: both handle the message at the same time.
func TestTakenMessageHandledTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	running, done := make(chan string, 10), make(chan struct{})
	w := newWorker(t, b, "g", orders, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		running <- string(msgs[0].Body)
		<-done
		return consumer.ConsumeSuccess, nil
	})
	defer close(done)
	send(t, newProducer(t, b), orders, "x")
	takeN(t, running, 1)
	other := newWorker(t, b, "g", orders, nil)
	_, err := b.TakeQueues(ctx(t), "g", w.instance)
	must(t, err)
	equal(t, "other", other.take(t, 1), "x")
}

func TestTakenQueuesGoToOthers(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 2)
	p := newProducer(t, b)
	first, second := newWorker(t, b, "g", orders, nil), newWorker(t, b, "g", orders, nil)
	_, err := b.TakeQueues(ctx(t), "g", first.instance)
	must(t, err)
	send(t, p, orders, "a", "b", "c", "d")
	equal(t, "second", second.take(t, 4), "a b c d")
	equal(t, "first", len(first.got), 0)
}

func TestPhantom(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 2)
	p := newProducer(t, b, producer.WithQueueSelector(producer.NewManualQueueSelector()))
	w := newWorker(t, b, "g", orders, nil)
	leave, err := b.AddPhantom(ctx(t), "g")
	must(t, err)
	for id := range 2 {
		msg := message(orders, fmt.Sprint("queue", id))
		msg.Queue = &primitive.MessageQueue{Topic: orders, BrokerName: "rmqtest", QueueId: id}
		_, err := p.SendSync(ctx(t), msg)
		must(t, err)
	}
	equal(t, "beside the phantom", w.take(t, 1), "queue1")
	must(t, leave(ctx(t)))
	equal(t, "after it left", w.take(t, 1), "queue0")
}

func TestSplit(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 2)
	p := newProducer(t, b)
	first, second := newWorker(t, b, "g", orders, nil), newWorker(t, b, "g", orders, nil)
	heal, err := b.Split(ctx(t), "g")
	must(t, err)
	send(t, p, orders, "a", "b", "c", "d")
	equal(t, "first", first.take(t, 4), "a b c d")
	equal(t, "second", second.take(t, 4), "a b c d")
	for _, m := range b.Messages(orders) {
		equal(t, "deliveries", b.DeliveryCount("g", m.FirstID()), 2)
	}
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	must(t, b.Replay(ctx(t), "g", orders, 0))
	equal(t, "first again", first.take(t, 4), "a b c d")
	equal(t, "second again", second.take(t, 4), "a b c d")
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	must(t, heal(ctx(t)))
	send(t, p, orders, "e", "f")
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	equal(t, "handled after it was healed", len(first.got)+len(second.got), 2)
}

func TestDisconnect(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	w := newWorker(t, b, "g", orders, nil)
	send(t, p, orders, "a")
	w.messages(t, 1)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	must(t, b.Disconnect(w.instance))
	must(t, b.WaitForMembers(ctx(t), "g", 0))
	send(t, p, orders, "b")
	equal(t, "after it came back", w.take(t, 1), "b") // 3 s later
	must(t, b.WaitForMembers(ctx(t), "g", 1))
	if b.Disconnect("nobody") == nil {
		t.Error("a client that does not exist was disconnected")
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how  rmqtest.Restart
		lose func(*rmqtest.Broker, rmqtest.Code, int) (lift func())
		want string
	}{
		"keeps":          {rmqtest.Restart{}, (*rmqtest.Broker).LoseReplies, "late new unanswered"},
		"keeps, crashed": {rmqtest.Restart{Crash: true}, (*rmqtest.Broker).LoseReplies, "late new unanswered"},
		"loses offsets":  {rmqtest.Restart{LoseOffsets: true}, (*rmqtest.Broker).LoseReplies, "late new old unanswered"},
		"loses messages": {rmqtest.Restart{}, (*rmqtest.Broker).LoseRequests, "late new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, rmqtest.Config{LongPoll: prompt.LongPoll, DelayLevels: []time.Duration{50 * time.Millisecond}})
			orders := topic(t, b, "orders", 1)
			p := newProducer(t, b, impatient, producer.WithRetry(0))
			w := newWorker(t, b, "g", orders, nil)
			send(t, p, orders, "old")
			w.messages(t, 1)
			must(t, b.WaitForConsumed(ctx(t), "g", orders))

			_, err := b.TakeQueues(ctx(t), "g", w.instance)
			must(t, err)
			_, err = p.SendSync(ctx(t), message(orders, "late").WithDelayTimeLevel(1))
			must(t, err)
			c.lose(b, rmqtest.Send, 1)
			if _, err := p.SendSync(ctx(t), message(orders, "unanswered")); err == nil {
				t.Error("a reply that was lost came")
			}
			w.shutDown(t)
			addr := b.Addr()
			must(t, b.Restart(ctx(t), c.how))
			equal(t, "address", b.Addr(), addr)
			send(t, newProducer(t, b), orders, "new") // one without a connection that is gone
			n := len(strings.Fields(c.want))
			equal(t, "after the restart", newWorker(t, b, "g", orders, nil).take(t, n), c.want)
			must(t, b.WaitForConsumed(ctx(t), "g", orders))
		})
	}
}

// Consumers that run are back by themselves.
func TestRestartUnderConsumer(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 2)
	p := newProducer(t, b)
	w := newWorker(t, b, "g", orders, nil)
	send(t, p, orders, "a", "b")
	w.messages(t, 2)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	must(t, b.Restart(ctx(t), rmqtest.Restart{}))
	send(t, p, orders, "c", "d")
	equal(t, "after the restart", w.take(t, 2), "c d")
	must(t, b.WaitForMembers(ctx(t), "g", 1))
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
}
