package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

const (
	nanoseconds = "ns/msg"
	allocations = "allocs/msg"

	// mostAllocations is what a message may cost on the memory store, whose own part is in it.
	mostAllocations = 8
	// passOf is how many messages a store or a map is given before it makes room for a new one.
	passOf = 20_000
)

// wrapperAlone compares the wrapper and the memory store with the least that any such library has to do: the SHA-256 of the key, and a map under
// a mutex.
func wrapperAlone() cell {
	return cell{"wrapper/store=memory/handlers=1", openWrapper, []row{
		sooner("ns of the floor : ns", nanoseconds, reported()),
		{"allocations a message", allocations, func(_, product figures) float64 { return product[allocations] }, notSurelyAbove(mostAllocations)},
	}}
}

func openWrapper(context.Context, *stage) (pair, error) {
	msgs := make([]*primitive.MessageExt, passOf)
	for i := range msgs {
		msgs[i] = &primitive.MessageExt{MsgId: "7F00000100002A9F0000000000000001"}
		msgs[i].Topic, msgs[i].Body = "orders", []byte(`{"order":{"id":"1","amount":100}}`)
		msgs[i].WithTag("paid").WithKeys([]string{strconv.Itoa(i)})
	}
	return pair{
		func(_ context.Context, d time.Duration) (figures, error) { return passes(d, msgs, floorPass) },
		func(_ context.Context, d time.Duration) (figures, error) { return passes(d, msgs, wrapperPass) },
	}, nil
}

// A passing begins a pass with nothing, and returns what does one message, and what ends it.
type passing func() (do func(msgs []*primitive.MessageExt) error, end func() error, err error)

// passes repeats a pass over all messages until the time is over. What begins and ends a pass does not count.
func passes(d time.Duration, msgs []*primitive.MessageExt, begin passing) (figures, error) {
	var elapsed time.Duration
	var mallocs uint64
	n := 0
	for elapsed < d {
		do, end, err := begin()
		if err != nil {
			return nil, err
		}
		before := mallocsSoFar()
		start := time.Now()
		for i := range msgs {
			if err := do(msgs[i : i+1]); err != nil {
				return nil, errors.Join(err, end())
			}
		}
		elapsed += time.Since(start)
		mallocs += mallocsSoFar() - before
		n += len(msgs)
		if err := end(); err != nil {
			return nil, err
		}
	}
	return figures{nanoseconds: float64(elapsed.Nanoseconds()) / float64(n), allocations: float64(mallocs) / float64(n)}, nil
}

func mallocsSoFar() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func floorPass() (do func([]*primitive.MessageExt) error, end func() error, err error) {
	var mu sync.Mutex
	seen := make(map[[sha256.Size]byte]bool)
	do = func(msgs []*primitive.MessageExt) error {
		key := sha256.Sum256([]byte(msgs[0].GetKeys()))
		mu.Lock()
		seen[key] = true
		mu.Unlock()
		return nil
	}
	return do, func() error { return nil }, nil
}

func wrapperPass() (do func([]*primitive.MessageExt) error, end func() error, err error) {
	store, err := memory.New(memory.Config{})
	if err != nil {
		return nil, nil, err
	}
	d, err := rmqdedup.New(store, "order-group", rmqdedup.Config{Key: rmqdedup.Keys, Observer: rmqdedup.NopObserver{}})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	ctx := primitive.WithConcurrentlyCtx(context.Background(), primitive.NewConsumeConcurrentlyContext())
	runs := 0
	listen := d.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		runs++
		return consumer.ConsumeSuccess, nil
	})
	do = func(msgs []*primitive.MessageExt) error {
		if got, err := listen(ctx, msgs...); got != consumer.ConsumeSuccess || err != nil {
			return fmt.Errorf("the listener answered %v: %w", got, err)
		}
		return nil
	}
	return do, func() error {
		err := errors.Join(d.Close(context.Background()), store.Close())
		if err == nil && runs != passOf {
			err = fmt.Errorf("%d messages were run %d times in all", passOf, runs)
		}
		return err
	}, nil
}
