package rmqtest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// prompt makes consumers report their progress soon.
var prompt = rmqtest.Config{LongPoll: 50 * time.Millisecond, DelayLevels: rmqtest.DelayLevels(time.Millisecond)}

func numbers(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("m%04d", i))
	}
	return bodies
}

func TestConsume(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 4)
	send(t, newProducer(t, b), orders, numbers(100)...)
	w := newWorker(t, b, "g", orders, nil)
	equal(t, "got", w.take(t, 100), strings.Join(numbers(100), " "))
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	equal(t, "deliveries", len(b.Deliveries("g")), 100)
	for _, m := range b.Messages(orders) {
		equal(t, "deliveries of one message", b.DeliveryCount("g", m.FirstID()), 1)
	}
}

func TestConsumeContinues(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	send(t, p, orders, "a", "b")
	first := newWorker(t, b, "g", orders, nil)
	equal(t, "first", first.take(t, 2), "a b")
	must(t, b.WaitForOffset(ctx(t), "g", orders, 0, 2))
	first.shutDown(t)

	send(t, p, orders, "c")
	second := newWorker(t, b, "g", orders, nil)
	equal(t, "second", second.take(t, 1), "c")
	equal(t, "another group", newWorker(t, b, "other", orders, nil).take(t, 3), "a b c")
}

func TestConsumeBatches(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	send(t, newProducer(t, b), orders, numbers(20)...)
	sizes := make(chan int, 20)
	newWorker(t, b, "g", orders, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		sizes <- len(msgs)
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumeMessageBatchMaxSize(8))
	equal(t, "batches", fmt.Sprint(len(takeN(t, sizes, 3))), "3")
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
}

func TestConsumeTags(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	for _, tag := range []string{"paid", "shipped", "lost", "paid", "lost"} {
		_, err := p.SendSync(ctx(t), message(orders, tag).WithTag(tag))
		must(t, err)
	}
	w, err := startWorker(t, b, "g", orders, "paid || shipped", nil)
	must(t, err)
	equal(t, "got", w.take(t, 3), "paid paid shipped")
	must(t, b.WaitForConsumed(ctx(t), "g", orders)) // what does not match is committed too
	equal(t, "deliveries", len(b.Deliveries("g")), 3)
}

func TestConsumeWaitsForMessages(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 4)
	w := newWorker(t, b, "g", orders, nil)
	must(t, b.WaitForPulls(ctx(t), "g", orders))
	pulls := func() (n int) {
		for _, r := range b.Requests(rmqtest.Pull) {
			if r.Topic == orders {
				n++
			}
		}
		return n
	}
	equal(t, "pulls", pulls(), 4)
	send(t, newProducer(t, b), orders, "x")
	equal(t, "got", w.take(t, 1), "x")
	must(t, b.WaitForPulls(ctx(t), "g", orders))
	equal(t, "pulls", pulls(), 5)
}

func TestConsumeUnknownTopic(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	if _, err := startWorker(t, b, "g", "nowhere", "*", nil); err == nil {
		t.Error("a consumer of a topic that does not exist started")
	}
}

// A new group begins at the first message, as with the real broker while a queue is young.
func TestConsumeFrom(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]consumer.ConsumeFromWhere{
		"last offset": consumer.ConsumeFromLastOffset, "first offset": consumer.ConsumeFromFirstOffset, "time": consumer.ConsumeFromTimestamp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, rmqtest.Config{})
			orders := topic(t, b, "orders", 1)
			p := newProducer(t, b)
			send(t, p, orders, "old")
			w := newWorker(t, b, "g", orders, nil, consumer.WithConsumeFromWhere(where))
			must(t, b.WaitForPulls(ctx(t), "g", orders))
			send(t, p, orders, "new")
			equal(t, "got", w.take(t, 2), "new old")
		})
	}
}

func TestMembersShareQueues(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 4)
	p := newProducer(t, b)
	first := newWorker(t, b, "g", orders, nil)
	second := newWorker(t, b, "g", orders, nil)
	must(t, b.Rebalance(ctx(t), "g"))

	send(t, p, orders, numbers(40)...)
	must(t, b.WaitForConsumed(ctx(t), "g", orders))
	clients := make(map[string]int)
	for _, d := range b.Deliveries("g") {
		clients[d.Client]++
	}
	equal(t, "shares", fmt.Sprint(clients), fmt.Sprint(map[string]int{b.Members("g")[0]: 20, b.Members("g")[1]: 20}))

	second.shutDown(t)
	send(t, p, orders, numbers(4)...)
	_ = first.take(t, 24)
}

func TestBroadcasting(t *testing.T) {
	t.Parallel()
	b := start(t, prompt)
	orders := topic(t, b, "orders", 2)
	group := "cast-" + b.InstanceName()
	t.Cleanup(func() { // the client keeps a broadcasting consumer's offsets in files, and writes them at its end
		home, _ := os.UserHomeDir()
		_ = os.RemoveAll(filepath.Join(home, ".rocketmq_client_go", group))
	})
	bothCast := consumer.WithConsumerModel(consumer.BroadCasting)
	first := newWorker(t, b, group, orders, nil, bothCast)
	second := newWorker(t, b, group, orders, nil, bothCast)
	must(t, b.WaitForMembers(ctx(t), group, 2))
	must(t, b.WaitForPulls(ctx(t), group, orders))
	send(t, newProducer(t, b), orders, "x", "y")
	first.take(t, 2)
	second.take(t, 2)
	if err := b.Rebalance(ctx(t), group); err == nil {
		t.Error("a broadcasting group was balanced")
	}
}
