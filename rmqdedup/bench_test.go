package rmqdedup_test

import (
	"context"
	"crypto/sha256"
	"strconv"
	"sync"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// mostAllocations is what a message may cost on the memory store, whose own part is in it.
const mostAllocations = 8

// quietListener is a wrapped listener on a memory store that does nothing and is not observed.
func quietListener(tb testing.TB) rmqdedup.Handler {
	tb.Helper()
	store, err := memory.New(memory.Config{MaxKeys: 10_000_000})
	if err != nil {
		tb.Fatal(err)
	}
	d, err := rmqdedup.New(store, "order-group", rmqdedup.Config{Key: rmqdedup.Keys, Observer: rmqdedup.NopObserver{}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return d.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		return consumer.ConsumeSuccess, nil
	})
}

// distinctOrders returns messages that are all different, and one context to deliver them with.
func distinctOrders(n int) (context.Context, []*primitive.MessageExt) {
	ctx := primitive.WithConcurrentlyCtx(context.Background(), primitive.NewConsumeConcurrentlyContext())
	msgs := make([]*primitive.MessageExt, n)
	for i := range msgs {
		msgs[i] = order(strconv.Itoa(i))
	}
	return ctx, msgs
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates as well")
	}
	listen := quietListener(t)
	const runs = 2000
	ctx, msgs := distinctOrders(runs + 1)
	i := 0
	allocations := testing.AllocsPerRun(runs, func() {
		if got, err := listen(ctx, msgs[i:i+1]...); got != consumer.ConsumeSuccess || err != nil {
			t.Fatal(got, err)
		}
		i++
	})
	t.Logf("%v allocations a message", allocations)
	if allocations > mostAllocations {
		t.Errorf("a delivery of one message allocates %v times; at most %d are wanted", allocations, mostAllocations)
	}
}

// BenchmarkWrapper is one new message through the wrapper and the memory store, to be compared with BenchmarkFloor.
func BenchmarkWrapper(b *testing.B) {
	listen := quietListener(b)
	ctx, msgs := distinctOrders(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if got, err := listen(ctx, msgs[i:i+1]...); got != consumer.ConsumeSuccess || err != nil {
			b.Fatal(got, err)
		}
	}
}

// BenchmarkFloor is the least that any such library has to do: the SHA-256 of the key and a map under a mutex.
func BenchmarkFloor(b *testing.B) {
	var mu sync.Mutex
	seen := make(map[[sha256.Size]byte]bool)
	_, msgs := distinctOrders(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		key := sha256.Sum256([]byte(msgs[i].GetKeys()))
		mu.Lock()
		seen[key] = true
		mu.Unlock()
	}
}
