package rmqtest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// failing fails every message, at a delay level, and shows it in got.
func failing(got chan<- *primitive.MessageExt, level int) handler {
	return func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
			c.DelayLevelWhenNextConsume = level
		}
		for _, m := range msgs {
			got <- m
		}
		return consumer.ConsumeRetryLater, nil
	}
}

func TestRetryUntilDead(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	got := make(chan *primitive.MessageExt, 10)
	newWorker(t, b, "g", orders, failing(got, 0), consumer.WithMaxReconsumeTimes(2))
	res, err := p.SendSync(ctx(t), message(orders, "x").WithTag("paid"))
	must(t, err)

	for attempt, m := range takeN(t, got, 3) {
		equal(t, "topic", m.Topic, orders)
		equal(t, "MsgId", m.MsgId, res.MsgID)
		equal(t, "tags", m.GetTags(), "paid")
		equal(t, "ReconsumeTimes", int(m.ReconsumeTimes), attempt)
		want := map[string]string{
			"ORIGIN_MESSAGE_ID": res.OffsetMsgID, "RETRY_TOPIC": orders, "WAIT": "false", "REAL_QID": "0",
			"REAL_TOPIC": rmqtest.RetryTopic("g"), "DELAY": strconv.Itoa(2 + attempt),
		}
		for name, value := range want {
			if attempt == 0 {
				value = ""
			}
			equal(t, name, m.GetProperty(name), value)
		}
		if attempt > 0 && m.OffsetMsgId == res.OffsetMsgID {
			t.Error("a retry has its first copy's offset ID")
		}
	}
	dead, err := b.WaitForMessages(ctx(t), rmqtest.DeadLetterTopic("g"), 1)
	must(t, err)
	equal(t, "ReconsumeTimes", dead[0].ReconsumeTimes, 3)
	equal(t, "DELAY", dead[0].Properties["DELAY"], "0")
	equal(t, "ID", dead[0].ID(), res.MsgID)
	equal(t, "deliveries", b.DeliveryCount("g", res.MsgID), 3)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	must(t, b.WaitForConsumed(ctx(t), "g", rmqtest.RetryTopic("g")))
}

func TestRetryLevels(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ask, level int }{
		"chosen by the broker":  {0, 3},
		"chosen by the handler": {7, 7},
		"beyond the last":       {99, 18},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, rmqtest.Config{}) // production's delays: nobody waits for them here
			orders := topic(t, b, "orders", 1)
			got := make(chan *primitive.MessageExt, 10)
			newWorker(t, b, "g", orders, failing(got, c.ask))
			send(t, newProducer(t, b), orders, "x")
			waiting, err := b.WaitForDelayed(ctx(t), 1)
			must(t, err)
			equal(t, "level", waiting[0].Level, c.level)
			wait := rmqtest.DelayLevels(time.Second)[c.level-1]
			if left := time.Until(waiting[0].Due); left > wait || left < wait-time.Second {
				t.Errorf("due in %v, want %v", left, wait)
			}
			b.ReleaseDelayed()
			equal(t, "attempt", takeN(t, got, 2)[1].ReconsumeTimes, 1)
			_, err = b.WaitForDelayed(ctx(t), 1)
			must(t, err)
		})
	}
}

func TestNegativeLevelGoesToDeadLetters(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	got := make(chan *primitive.MessageExt, 10)
	newWorker(t, b, "g", orders, failing(got, -1))
	send(t, newProducer(t, b), orders, "x")
	dead, err := b.WaitForMessages(ctx(t), rmqtest.DeadLetterTopic("g"), 1)
	must(t, err)
	equal(t, "ReconsumeTimes", dead[0].ReconsumeTimes, 1)
	equal(t, "queue", dead[0].QueueID, 0)
	equal(t, "deliveries", len(b.Deliveries("g")), 1)
}

func TestRetryOfBatchMember(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	got := make(chan *primitive.MessageExt, 10)
	newWorker(t, b, "g", orders, failing(got, 1), consumer.WithMaxReconsumeTimes(2))
	_, err := newProducer(t, b).SendSync(ctx(t), message(orders, "a"), message(orders, "b"))
	must(t, err)
	ids, origins := make(map[string]bool), make(map[string]bool)
	for _, m := range takeN(t, got, 6) {
		ids[m.MsgId] = true
		if m.ReconsumeTimes > 0 {
			origins[m.GetProperty("ORIGIN_MESSAGE_ID")] = true
		}
	}
	equal(t, "message IDs", len(ids), 6) // another one at every attempt
	equal(t, "origins", len(origins), 2)
	for id := range origins {
		equal(t, "deliveries", b.DeliveryCount("g", id), 3)
	}
}

func TestSendBackRefused(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	got := make(chan *primitive.MessageExt, 10)
	newWorker(t, b, "g", orders, failing(got, -1), consumer.WithMaxReconsumeTimes(1))
	b.RefuseSendBacks(-1)
	res, err := newProducer(t, b).SendSync(ctx(t), message(orders, "x"))
	must(t, err)
	m := takeN(t, got, 2)[1]
	equal(t, "topic", m.Topic, orders)
	equal(t, "MsgId", m.MsgId, res.MsgID)
	equal(t, "ORIGIN_MESSAGE_ID", m.GetProperty("ORIGIN_MESSAGE_ID"), res.MsgID)
	equal(t, "DELAY", m.GetProperty("DELAY"), "3") // and not the handler's -1
	equal(t, "ReconsumeTimes", m.ReconsumeTimes, 1)
	dead, err := b.WaitForMessages(ctx(t), rmqtest.DeadLetterTopic("g"), 1)
	must(t, err)
	equal(t, "ReconsumeTimes", dead[0].ReconsumeTimes, 2)
	equal(t, "DELAY", dead[0].Properties["DELAY"], "-1")
	equal(t, "producer group", b.Requests(rmqtest.Send)[1].Group, "CLIENT_INNER_PRODUCER")
}

func TestRetriedWithoutBroker(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	send(t, newProducer(t, b), orders, "x")
	b.RefuseSendBacks(-1)
	b.Fault(-1, rmqtest.Refuse(rmqtest.SystemError), rmqtest.Send)
	got := make(chan *primitive.MessageExt, 10)
	newWorker(t, b, "g", orders, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got <- msgs[0]
		if msgs[0].ReconsumeTimes > 0 {
			return consumer.ConsumeSuccess, nil
		}
		return consumer.ConsumeRetryLater, nil
	})
	msgs := takeN(t, got, 2)
	if msgs[0] != msgs[1] {
		t.Error("the same message object was expected again")
	}
	equal(t, "ReconsumeTimes", msgs[1].ReconsumeTimes, 1)
	equal(t, "deliveries", len(b.Deliveries("g")), 1)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
}

func TestConsumeDirectly(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	results := make(chan consumer.ConsumeResult, 3)
	got := make(chan *primitive.MessageExt, 10)
	w := newWorker(t, b, "g", orders, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got <- msgs[0]
		if string(msgs[0].Body) == "error" {
			return consumer.ConsumeRetryLater, errors.New("no")
		}
		return <-results, nil
	})
	send(t, newProducer(t, b), "elsewhere", "x")
	m := b.Messages("elsewhere")[0]
	m.Topic = orders

	for i, result := range []consumer.ConsumeResult{consumer.ConsumeSuccess, consumer.ConsumeRetryLater} {
		results <- result
		res, err := b.ConsumeDirectly(ctx(t), "g", w.instance, m)
		must(t, err)
		equal(t, "result", res.Result, i)
		equal(t, "ID", takeN(t, got, 1)[0].MsgId, m.ID())
	}
	m.Body = []byte("error")
	res, err := b.ConsumeDirectly(ctx(t), "g", w.instance, m)
	must(t, err)
	equal(t, "result", fmt.Sprint(res), "{4 no}")
	equal(t, "deliveries", len(b.Deliveries("g")), 0)

	if _, err := b.ConsumeDirectly(ctx(t), "g", "nobody", m); err == nil {
		t.Error("a member that does not exist consumed a message")
	}
}

// A topic is settled when its retries are, which is after their delays; other topics' messages and delays do not count.
func TestWaitForSettled(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{LongPoll: prompt.LongPoll}) // production's delays: nobody waits for them here
	orders := topic(t, b, "orders", 2)
	settled := func() bool {
		asked, cancel := context.WithCancel(ctx(t))
		cancel()
		return b.WaitForSettled(asked, "g", orders) == nil
	}
	equal(t, "settled when there is nothing", settled(), true)
	got, free := make(chan *primitive.MessageExt, 10), make(chan struct{})
	fail := failing(got, 0)
	newWorker(t, b, "g", orders, func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if msgs[0].ReconsumeTimes > 0 {
			<-free
		}
		return fail(ctx, msgs...)
	}, consumer.WithMaxReconsumeTimes(1))
	p := newProducer(t, b)
	_, err := p.SendSync(ctx(t), message("other", "x").WithDelayTimeLevel(18))
	must(t, err)
	send(t, p, orders, "x")
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	equal(t, "settled while a retry is delayed", settled(), false)
	b.ReleaseDelayed()
	equal(t, "settled while a retry is handled", settled(), false)
	close(free)
	must(t, b.WaitForSettled(ctx(t), "g", orders))
	equal(t, "handled", len(got), 2)
	equal(t, "dead", len(b.Messages(rmqtest.DeadLetterTopic("g"))), 1)
	_, err = p.SendSync(ctx(t), message(orders, "y").WithDelayTimeLevel(18))
	must(t, err)
	equal(t, "settled while a message is delayed", settled(), false)
}
