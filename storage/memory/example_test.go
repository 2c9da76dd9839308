package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// Two deliveries of one order: while the first is being worked on the second is in flight, and afterwards it is a
// duplicate. (The wrapper in package rmqdedup makes these calls.)
func Example() {
	ctx := context.Background()
	store, err := memory.New(memory.Config{MaxKeys: 10_000})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	key := rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", "order-17")
	first := []rmqdedup.Request{{
		Key: key, Owner: rmqdedup.NewOwner(), Lease: time.Minute, Retention: 96 * time.Hour, MessageID: "7F0000010000",
	}}
	second := []rmqdedup.Request{{
		Key: key, Owner: rmqdedup.NewOwner(), Lease: time.Minute, Retention: 96 * time.Hour, MessageID: "7F0000010001",
	}}

	answers, _ := store.Acquire(ctx, first)
	fmt.Println("first:", answers[0].Outcome)

	answers, _ = store.Acquire(ctx, second)
	fmt.Println("second:", answers[0].Outcome, "for", answers[0].Left.Round(time.Minute))

	answers, _ = store.Complete(ctx, first)
	fmt.Println("first completes:", answers[0].Outcome)

	answers, _ = store.Acquire(ctx, second)
	fmt.Println("second:", answers[0].Outcome, "by", answers[0].Record.MessageID)

	// Output:
	// first: claimed
	// second: in flight for 1m0s
	// first completes: applied
	// second: done by 7F0000010000
}

// A lease runs out when its owner has died. Age lets its time pass without waiting; in a testing/synctest bubble a
// sleep does.
func ExampleStore_Age() {
	ctx := context.Background()
	store, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	claim := rmqdedup.Request{
		Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", "order-17"),
		Owner: rmqdedup.NewOwner(), Lease: time.Minute, Grace: time.Hour,
	}
	_, _ = store.Acquire(ctx, []rmqdedup.Request{claim})
	store.Age(claim.Key, 2*time.Minute)

	claim.Owner = rmqdedup.NewOwner()
	answers, _ := store.Acquire(ctx, []rmqdedup.Request{claim})
	fmt.Println(answers[0].Outcome)

	// Output:
	// taken over
}
