package rmqtest_test

import (
	"context"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/rmqtest"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

type listener = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// levels are a thousand times as fast as production's, for the broker and the wrapper alike.
var levels = rmqtest.DelayLevels(time.Millisecond)

// Order 1 is sent twice, and the member that works on order 2 dies in it. Each order is charged once.
func TestEachOrderIsChargedOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	b, err := rmqtest.Start(rmqtest.Config{DelayLevels: levels, LongPoll: 50 * time.Millisecond})
	check(t, err)
	t.Cleanup(func() { check(t, b.Close()) })
	check(t, b.CreateTopic("orders", 1))
	store, err := memory.New(memory.Config{}) // shared by all members, as a Redis is
	check(t, err)

	charged := make(chan string, 10)
	charge := func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) { // your listener
		charged <- msgs[0].GetKeys()
		return consumer.ConsumeSuccess, nil
	}
	crashed, crash := context.WithCancel(ctx)
	doomed := member(ctx, t, b, store, func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if msgs[0].GetKeys() == "2" {
			crash()
			<-t.Context().Done() // it does not answer as long as the test lasts
			return consumer.ConsumeRetryLater, nil
		}
		return charge(ctx, msgs...)
	})
	produce(ctx, t, b, "1", "1", "2")

	<-crashed.Done()
	member(ctx, t, b, store, charge)
	check(t, b.WaitForMembers(ctx, "shop", 2))
	_, err = b.TakeQueues(ctx, "shop", doomed) // as the broker does with those of a dead member
	check(t, err)

	check(t, b.WaitForSettled(ctx, "shop", "orders"))
	times := map[string]int{}
	for len(charged) > 0 {
		times[<-charged]++
	}
	if len(times) != 2 || times["1"] != 1 || times["2"] != 1 {
		t.Errorf("charged, by order: %v, want each of 1 and 2 once", times)
	}
}

// member starts a member of the group shop, and returns its name. It is what main does, but for the addresses and times.
func member(ctx context.Context, t *testing.T, b *rmqtest.Broker, store rmqdedup.Store, handle listener) (name string) {
	t.Helper()
	dedup, err := rmqdedup.New(store, "shop", rmqdedup.Config{
		Key: rmqdedup.Keys, DelayLevels: levels, Observer: rmqdedup.NopObserver{},
		Lease: 300 * time.Millisecond, NoRenewal: true, // the process of a member that dies here goes on, and would renew its claim
	})
	check(t, err)
	name = b.InstanceName()
	c, err := rocketmq.NewPushConsumer(append(dedup.ConsumerOptions(),
		consumer.WithNameServer(primitive.NamesrvAddr{b.Addr()}), consumer.WithInstance(name))...)
	check(t, err)
	check(t, c.Subscribe("orders", consumer.MessageSelector{}, dedup.Wrap(handle)))
	check(t, c.Start())
	t.Cleanup(func() { check(t, b.ShutDown(ctx, "shop", name, func() error { return dedup.Shutdown(ctx, c) })) })
	return name
}

// produce sends a message for each of these orders, which is its key.
func produce(ctx context.Context, t *testing.T, b *rmqtest.Broker, orders ...string) {
	t.Helper()
	p, err := rocketmq.NewProducer(producer.WithNameServer(primitive.NamesrvAddr{b.Addr()}), producer.WithInstanceName(b.InstanceName()))
	check(t, err)
	check(t, p.Start())
	t.Cleanup(func() { check(t, p.Shutdown()) })
	for _, order := range orders {
		_, err := p.SendSync(ctx, primitive.NewMessage("orders", []byte("{}")).WithKeys([]string{order}))
		check(t, err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
