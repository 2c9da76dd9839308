package rmqdedup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// 64 goroutines deliver batches of overlapping keys by two wrappers, as fast as they can: no two handlers have one key at a time, none
// is run again after a success, and in the end all is done.
func TestNoTwoHandlersOfOneKey(t *testing.T) {
	const goroutines, keys = 64, 200
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	store := memoryStore(t)
	var wrappers [2]*rmqdedup.Dedup
	for i := range wrappers {
		d, err := rmqdedup.New(store, group, rmqdedup.Config{Key: rmqdedup.Keys, Observer: rmqdedup.NopObserver{}})
		if err != nil {
			t.Fatal(err)
		}
		wrappers[i] = d
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := d.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var running, succeeded [keys]atomic.Int32
	handle := func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		ok := rand.N(4) > 0
		for _, m := range msgs {
			if running[m.QueueOffset].Add(1) > 1 {
				t.Errorf("two handlers of key %d at a time", m.QueueOffset)
			}
			if succeeded[m.QueueOffset].Load() > 0 {
				t.Errorf("key %d is run after a success", m.QueueOffset)
			}
		}
		for _, m := range msgs {
			if ok {
				succeeded[m.QueueOffset].Add(1)
			}
			running[m.QueueOffset].Add(-1)
		}
		if ok {
			return consumer.ConsumeSuccess, nil
		}
		return consumer.ConsumeRetryLater, nil
	}
	message := func(key int) *primitive.MessageExt {
		return order(fmt.Sprint(key), func(m *primitive.MessageExt) { m.QueueOffset = int64(key) })
	}
	var wait sync.WaitGroup
	for g := range goroutines {
		wait.Go(func() {
			listen := wrappers[g%len(wrappers)].Wrap(handle)
			for range rounds {
				msgs := make([]*primitive.MessageExt, 1+rand.N(4))
				for i := range msgs {
					msgs[i] = message(rand.N(keys))
				}
				switch got := concurrently(listen, msgs...); got.result {
				case consumer.ConsumeSuccess, consumer.ConsumeRetryLater:
				default:
					t.Errorf("answered %s", describe(got))
				}
			}
		})
	}
	wait.Wait()
	listen := wrappers[0].Wrap(handle)
	for key := range keys {
		for concurrently(listen, message(key)).result != consumer.ConsumeSuccess {
		}
		if n := succeeded[key].Load(); n != 1 {
			t.Errorf("key %d succeeded %d times", key, n)
		}
	}
}
