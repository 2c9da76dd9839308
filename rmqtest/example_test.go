package rmqtest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// A listener fails once, and a producer sends one order twice because the broker's reply was lost: the listener sees
// three deliveries.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	b, err := rmqtest.Start(rmqtest.Config{
		DelayLevels: rmqtest.DelayLevels(time.Millisecond), // retries after 10 ms instead of 10 s
		LongPoll:    50 * time.Millisecond,                 // progress is committed soon
	})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	_ = b.CreateTopic("orders", 1)

	var calls atomic.Int64
	c, _ := rocketmq.NewPushConsumer(
		consumer.WithNameServer(primitive.NamesrvAddr{b.Addr()}),
		consumer.WithInstance(b.InstanceName()),
		consumer.WithGroupName("shop"),
		consumer.WithConsumeGoroutineNums(1),
	)
	_ = c.Subscribe("orders", consumer.MessageSelector{}, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if calls.Add(1) == 1 {
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	})
	if err := c.Start(); err != nil {
		panic(err)
	}
	defer c.Shutdown()

	p, _ := rocketmq.NewProducer(
		producer.WithNameServer(primitive.NamesrvAddr{b.Addr()}),
		producer.WithInstanceName(b.InstanceName()),
		producer.WithSendMsgTimeout(200*time.Millisecond),
		producer.WithRetry(1),
	)
	if err := p.Start(); err != nil {
		panic(err)
	}
	defer p.Shutdown()

	b.LoseReplies(rmqtest.Send, 1)
	res, err := p.SendSync(ctx, primitive.NewMessage("orders", []byte("order 1")))
	if err != nil {
		panic(err)
	}
	_ = b.WaitForConsumed(ctx, "shop", "orders")
	retries, _ := b.WaitForMessages(ctx, rmqtest.RetryTopic("shop"), 1)
	_ = b.WaitForConsumed(ctx, "shop", rmqtest.RetryTopic("shop"))

	fmt.Println("copies of one order in the topic:", len(b.Messages("orders")))
	fmt.Println("attempts before the retry:", retries[0].ReconsumeTimes)
	fmt.Println("deliveries of the order:", b.DeliveryCount("shop", res.MsgID))
	// Output:
	// copies of one order in the topic: 2
	// attempts before the retry: 1
	// deliveries of the order: 3
}
