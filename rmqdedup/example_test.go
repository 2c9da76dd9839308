package rmqdedup_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// deliver calls a listener as the client's concurrent consumer does, and prints what it answers.
func deliver(listen rmqdedup.Handler, msgs ...*primitive.MessageExt) {
	settings := primitive.NewConsumeConcurrentlyContext()
	result, _ := listen(primitive.WithConcurrentlyCtx(context.Background(), settings), msgs...)
	if result == consumer.ConsumeSuccess {
		fmt.Println("  acknowledged")
		return
	}
	fmt.Println("  sent back")
}

// message is one that a producer sent: the body, under a message ID.
func message(id, body string) *primitive.MessageExt {
	m := &primitive.MessageExt{MsgId: id}
	m.Topic = "orders"
	m.Body = []byte(body)
	m.WithProperty(primitive.PropertyUniqueClientMessageIdKeyIndex, id)
	return m
}

// plainLog logs to the standard output, without what differs from run to run.
func plainLog() rmqdedup.Observer {
	return rmqdedup.Log(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, "doneAt":
			return slog.Attr{}
		}
		return a
	}})))
}

// A producer sends an order twice, under two message IDs. The second is acknowledged without a run.
func ExampleDedup_Wrap() {
	store, err := memory.New(memory.Config{}) // storage.Open("redis://…") in real life
	if err != nil {
		panic(err)
	}
	dedup, err := rmqdedup.New(store, "order-group", rmqdedup.Config{
		Key:      rmqdedup.JSONField("order.id"),
		Observer: rmqdedup.NopObserver{},
	})
	if err != nil {
		panic(err)
	}
	listen := dedup.Wrap(func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range msgs {
			fmt.Println("  handling", m.MsgId)
		}
		return consumer.ConsumeSuccess, nil
	})
	for _, id := range []string{"A1", "A2"} {
		fmt.Println("delivered:", id)
		deliver(listen, message(id, `{"order":{"id":17,"total":"9.90"}}`))
	}
	if err := dedup.Close(context.Background()); err != nil { // Shutdown, where there is a consumer
		panic(err)
	}
	// Output:
	// delivered: A1
	//   handling A1
	//   acknowledged
	// delivered: A2
	//   acknowledged
}

// What cannot work is refused with all problems at once.
func ExampleNew_refused() {
	store, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	_, err = rmqdedup.New(store, "order-group", rmqdedup.Config{
		Lease:             16 * time.Minute,
		MaxReconsumeTimes: 3,
		ManualCommit:      true,
	})
	fmt.Println(err)
	// Output:
	// rmqdedup: consumer group "order-group" cannot work as configured:
	// Key is nil; choose a key function: MessageID, Keys, Property(name), JSONField(path), or your own
	// ManualCommit: with AutoCommit off the client never puts a suspended message back and never commits a success; leave it on
	// Lease is 16m0s, longer than the 15m40s that the retries can outlast (3 retries at delay levels from 3 on: 1m40s; the last attempt's wait: 14m0s): a message whose owner died would be dead-lettered before its claim ends; shorten Lease, or raise MaxReconsumeTimes or DelayLevels
}

// The handler's context carries one claim a message, and is cancelled when one is lost.
func ExampleClaims() {
	store, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	dedup, err := rmqdedup.New(store, "order-group", rmqdedup.Config{Key: rmqdedup.JSONField("id"), Observer: rmqdedup.NopObserver{}})
	if err != nil {
		panic(err)
	}
	deliver(dedup.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, c := range rmqdedup.Claims(ctx) {
			fmt.Printf("key %v, message %s, attempt %d, taken over: %v\n", c.Key, c.MessageID, c.Attempt, c.Takeover)
		}
		if ctx.Err() != nil { // the work may be somebody else's by now
			return consumer.ConsumeRetryLater, context.Cause(ctx)
		}
		return consumer.ConsumeSuccess, nil
	}), message("A1", `{"id":"one"}`), message("A2", `{"id":2}`))
	if err := dedup.Close(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// key orders: one, message A1, attempt 0, taken over: false
	// key orders: 2, message A2, attempt 0, taken over: false
	//   acknowledged
}

// For a first roll-out: everything runs as before, and the log tells what would have been suppressed.
func ExampleConfig_shadow() {
	store, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	dedup, err := rmqdedup.New(store, "order-group", rmqdedup.Config{Key: rmqdedup.JSONField("id"), Shadow: true, Observer: plainLog()})
	if err != nil {
		panic(err)
	}
	listen := dedup.Wrap(func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		fmt.Println("  handling", msgs[0].MsgId)
		return consumer.ConsumeSuccess, nil
	})
	deliver(listen, message("A1", `{"id":"17"}`))
	deliver(listen, message("A2", `{"id":"17"}`))
	if err := dedup.Close(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// level=INFO msg="rmqdedup: configured" group=order-group detail="concurrent consumer, 17 attempts over 4h59m40s; lease 1m0s, renewed every 20s; retention 96h0m0s; an outage of the store of up to 6h59m40s costs no message its place; shadow mode: nothing is suppressed" shadow=true
	//   handling A1
	//   acknowledged
	// level=INFO msg="rmqdedup: suppressed" group=order-group key="orders: 17" msgID=A2 attempt=0 recordedBy=A1 recordedAttempt=0 shadow=true
	//   handling A2
	//   acknowledged
}

// A key function of one's own: the tenant and the order's number, whose lengths tell them apart.
func ExampleKeyFunc() {
	number := rmqdedup.JSONField("number")
	key := func(ctx context.Context, m *primitive.MessageExt) (string, error) {
		n, err := number(ctx, m)
		if err != nil {
			return "", err // the message goes by its message ID, and is counted
		}
		tenant := m.GetProperty("tenant")
		return fmt.Sprintf("%d:%s%s", len(tenant), tenant, n), nil
	}
	m := message("A1", `{"number":17}`)
	m.WithProperty("tenant", "acme")
	fmt.Println(key(context.Background(), m))
	fmt.Println(key(context.Background(), message("A2", `{"number":null}`)))
	// Output:
	// 4:acme17 <nil>
	//  the field "number" is neither a string nor a number
}

// Intercept stands in front of a store, here to count what is asked of it.
func ExampleIntercept() {
	store, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	counting := func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		fmt.Printf("%v of %d\n", op, len(reqs))
		return rmqdedup.Do(ctx, next, op, reqs)
	}
	dedup, err := rmqdedup.New(rmqdedup.Intercept(store, counting), "order-group", rmqdedup.Config{
		Key: rmqdedup.JSONField("id"), Observer: rmqdedup.NopObserver{},
	})
	if err != nil {
		panic(err)
	}
	listen := dedup.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		return consumer.ConsumeSuccess, nil
	})
	deliver(listen, message("A1", `{"id":1}`), message("A2", `{"id":2}`))
	if err := dedup.Close(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// acquire of 2
	// complete of 2
	//   acknowledged
}
