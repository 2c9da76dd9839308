package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A task does the messages with the numbers first to first+n-1, where n is the same every time.
type task func(ctx context.Context, first int) error

// A load has callers that do a task again and again, on messages whose numbers never come twice.
type load struct {
	callers int
	keys    int // messages a call
	task    task
	next    atomic.Int64

	// latencies are those of the calls, in microseconds, in a load of one caller. They are kept only if there is room for them.
	latencies []float64
}

// run lets the callers call for that long, and returns the messages a second: those of all calls, until the last one has ended. The first
// error ends it.
func (l *load) run(ctx context.Context, d time.Duration) (perSecond float64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls atomic.Int64
	var wg sync.WaitGroup
	l.latencies = l.latencies[:0]
	begin := time.Now()
	for range l.callers {
		wg.Go(func() {
			for last := begin; last.Sub(begin) < d && ctx.Err() == nil; {
				if err := l.task(ctx, int(l.next.Add(int64(l.keys)))-l.keys); err != nil {
					cancel(err)
					return
				}
				calls.Add(1)
				now := time.Now()
				if cap(l.latencies) > 0 {
					l.latencies = append(l.latencies, float64(now.Sub(last).Nanoseconds())/1e3)
				}
				last = now
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if calls.Load() == 0 {
		return 0, errors.New("there was no time for a single call; make -round longer")
	}
	return float64(calls.Load()) * float64(l.keys) / elapsed.Seconds(), nil
}
