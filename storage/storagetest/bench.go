package storagetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Bench runs the benchmarks that every store can be compared by: claiming and completing messages, one a call from 1,
// 20 and 64 goroutines, 8 and 64 a call from 4 of them, and one a call of which half are duplicates. One iteration is
// one message. That the same number of goroutines runs on a machine with any number of cores is on purpose: they stand
// for handlers.
func Bench(b *testing.B, c Config) {
	for _, w := range []workload{
		{goroutines: 1, batch: 1},
		{goroutines: 20, batch: 1},
		{goroutines: 64, batch: 1},
		{goroutines: 4, batch: 8},
		{goroutines: 4, batch: 64},
		{goroutines: 1, batch: 1, duplicates: true},
		{goroutines: 20, batch: 1, duplicates: true},
		{goroutines: 64, batch: 1, duplicates: true},
	} {
		b.Run(w.String(), func(b *testing.B) { w.run(b, c) })
	}
}

type workload struct {
	goroutines int
	batch      int  // keys a call
	duplicates bool // every second message is one
}

func (w workload) String() string {
	name := fmt.Sprintf("goroutines=%d/keys=%d", w.goroutines, w.batch)
	if w.duplicates {
		name += "/duplicates=50%"
	}
	return name
}

func (w workload) run(b *testing.B, c Config) {
	store := c.NewTable(b).Store(b)
	var next, duplicates atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range w.goroutines {
		wg.Go(func() {
			reqs := make([]rmqdedup.Request, 0, w.batch)
			for {
				first := int(next.Add(int64(w.batch))) - w.batch
				if first >= b.N {
					return
				}
				reqs = reqs[:0]
				for i := first; i < min(first+w.batch, b.N); i++ {
					reqs = append(reqs, w.message(i))
				}
				dropped, err := process(b.Context(), store, reqs)
				if err != nil {
					b.Error(err)
					return
				}
				duplicates.Add(int64(dropped))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	if w.duplicates {
		b.ReportMetric(float64(duplicates.Load())/float64(b.N), "dropped/message")
	}
}

// message returns the request of the i-th message.
func (w workload) message(i int) rmqdedup.Request {
	const later = 512 // messages between a late duplicate and its original; far more than are under way
	of := i
	switch {
	case !w.duplicates || i%2 == 0:
	case i%4 == 1:
		of = i - 1 // at once
	default:
		of = max(i-1-later, 0)
	}
	var owner rmqdedup.Owner
	binary.BigEndian.PutUint64(owner[:], uint64(i)+1)
	return rmqdedup.Request{
		Key: key("order-" + strconv.Itoa(of)), Owner: owner,
		Lease: time.Minute, Retention: time.Hour,
		MessageID: "7F00000100002A9F0000000000000001", Fingerprint: uint64(i),
	}
}

// process claims and completes, and returns how many were duplicates.
func process(ctx context.Context, store rmqdedup.Store, reqs []rmqdedup.Request) (duplicates int, err error) {
	answers, err := store.Acquire(ctx, reqs)
	if err != nil {
		return 0, err
	}
	mine := reqs[:0]
	for i, a := range answers {
		switch {
		case a.Err != nil:
			return 0, a.Err
		case a.Outcome == rmqdedup.Claimed || a.Outcome == rmqdedup.TakenOver:
			mine = append(mine, reqs[i])
		}
	}
	duplicates = len(reqs) - len(mine)
	if len(mine) == 0 {
		return duplicates, nil
	}
	answers, err = store.Complete(ctx, mine)
	for _, a := range answers {
		if a.Err != nil {
			return 0, a.Err
		}
	}
	return duplicates, err
}
