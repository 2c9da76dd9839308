package janitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// plainLog logs to the standard output, without the time.
func plainLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// A janitor in a process of its own runs until it is told to stop. It says how its interval fits the retries of the consumers: here the
// one that sweeps once a night would be too late for anything that relied on it.
func ExampleJanitor_Run() {
	store, err := memory.New(memory.Config{}) // storage.Open in real life
	if err != nil {
		panic(err)
	}
	j, err := janitor.New(store, janitor.Config{
		Schedule:  "0 3 * * *",
		Consumers: map[string]rmqdedup.Config{"order-group": {}},
		Logger:    plainLog(),
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in real life
	stop()
	if err := j.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// level=INFO msg="janitor: started" schedule="0 3 * * *" longestInterval=24h0m0s jitter=30s sweepTimeout=1m0s batchSize=200
	// level=WARN msg="janitor: too late for the retries" group=order-group lease=1m0s retriesOutlast=4h59m40s detail="a dead owner's claim is cleared 24h3m40s after its last renewal at the latest: lease 1m0s, interval 24h0m0s, jitter 30s, two sweeps of at most 1m5s; the retries outlast 4h59m40s: 16 retries at delay levels from 3 on: 4h45m40s; the last attempt's wait: 14m0s; a fleet that relied on the janitor alone would find its message in the dead-letter queue. The wrapper takes over expired claims without it; for whatever else reads the table, sweep more often, or raise MaxReconsumeTimes"
}

// Sweep is for those who have a scheduler.
func ExampleJanitor_Sweep() {
	ctx := context.Background()
	store, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	claim := rmqdedup.Request{
		Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", "order-17"),
		Owner: rmqdedup.NewOwner(), Lease: time.Minute,
	}
	if _, err := store.Acquire(ctx, []rmqdedup.Request{claim}); err != nil {
		panic(err)
	}
	store.Age(claim.Key, 2*time.Minute) // its owner died

	j, err := janitor.New(store, janitor.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	for range 2 {
		r, err := j.Sweep(ctx)
		switch {
		case errors.Is(err, janitor.ErrSweeping):
			fmt.Println("one is going on")
		case err != nil:
			fmt.Println("the next one goes on:", err)
		default:
			fmt.Println("found anything:", r.Found())
		}
	}
	// Output:
	// found anything: true
	// found anything: false
}

// What cannot work is refused with all problems at once.
func ExampleNew_refused() {
	store, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	_, err = janitor.New(store, janitor.Config{
		Schedule:  "every minute",
		BatchSize: -1,
		Consumers: map[string]rmqdedup.Config{"order-group": {Lease: -time.Minute}},
	})
	fmt.Println(err)
	// Output:
	// janitor: it cannot work as configured:
	// Schedule is "every minute": expected exactly 5 fields, found 2: [every minute]; give five fields (minute, hour, day of month, month, day of week) as in "*/5 * * * *", "@every 1m30s", or one of @hourly, @daily, @weekly, with "CRON_TZ=Europe/Berlin " before it if need be
	// BatchSize is -1; it must be above zero (leave it out for its default)
	// Consumers: "order-group": rmqdedup: no budget can be made of these figures:
	// Lease is -1m0s; it must be above zero (leave it out for its default)
	// InFlightWait is -1m6s; it must be above zero (leave it out for its default)
}

// alarm is an observer that reports a table that grows.
type alarm struct{ unfinished int }

func (a *alarm) Sweep(_ context.Context, r janitor.Report) {
	switch {
	case r.Skipped, r.Err != nil:
	case r.Unfinished:
		if a.unfinished++; a.unfinished == 10 {
			fmt.Println("rows come faster than they go")
		}
	default:
		a.unfinished = 0
		fmt.Println("the table is clean")
	}
}

func ExampleObserver() {
	store, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	j, err := janitor.New(store, janitor.Config{Observer: &alarm{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	if _, err := j.Sweep(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// the table is clean
}
