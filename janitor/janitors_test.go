package janitor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// Several janitors at once on one table, beside owners that come back and claims that go on: each row is counted once, and nothing goes that
// is needed.
func TestCase27SeveralJanitors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const janitors, claims, done, live = 4, 2000, 5000, 500
		tab := newTable(t, claims, done)
		var reqs []rmqdedup.Request
		for i := range live {
			reqs = append(reqs, rmqdedup.Request{Key: keyOf(fmt.Sprint("live ", i)), Owner: rmqdedup.NewOwner(), Lease: time.Hour, Retention: time.Hour})
		}
		do(t, tab.probes, rmqdedup.OpAcquire, rmqdedup.Claimed, reqs...)
		do(t, tab.probes, rmqdedup.OpComplete, rmqdedup.Applied, reqs[:live/2]...)
		tab.took = func(rows int) time.Duration { return time.Duration(rows) * 10 * time.Microsecond }

		var wg sync.WaitGroup
		var mu sync.Mutex
		var sum janitor.Report
		for range janitors {
			j, _, _ := newJanitor(t, tab, janitor.Config{})
			wg.Go(func() {
				r, err := j.Sweep(context.Background())
				mu.Lock()
				defer mu.Unlock()
				if err != nil || r.Retries > 0 {
					t.Errorf("%+v, %v", r, err)
				}
				sum.Cleared += r.Cleared
				sum.Purged += r.Purged
			})
		}
		wg.Wait()
		if left, purgeable := tab.rows(); sum.Cleared != claims || sum.Purged != done || left+purgeable > 0 {
			t.Errorf("%d cleared of %d, %d purged of %d; %d and %d are left", sum.Cleared, claims, sum.Purged, done, left, purgeable)
		}
		do(t, tab.probes, rmqdedup.OpLookup, rmqdedup.Done, reqs[:live/2]...)
		do(t, tab.probes, rmqdedup.OpRenew, rmqdedup.Applied, reqs[live/2:]...)
		wantNoProbe(t, tab.probes)
	})
}

func do(t *testing.T, store rmqdedup.Store, op rmqdedup.Op, want rmqdedup.Outcome, reqs ...rmqdedup.Request) {
	t.Helper()
	answers, err := rmqdedup.Do(context.Background(), store, op, reqs)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Outcome != want {
			t.Errorf("%v of %s: %v, want %v", op, reqs[i].Key.Value, a.Outcome, want)
		}
	}
}

// The same in real time on a real store, for the race detector.
func TestSeveralJanitorsOnMemory(t *testing.T) {
	store, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var dead, live []rmqdedup.Request
	for i := range 3000 {
		dead = append(dead, rmqdedup.Request{Key: keyOf(fmt.Sprint("dead ", i)), Owner: rmqdedup.NewOwner(), Lease: time.Hour, Retention: time.Hour})
		live = append(live, rmqdedup.Request{Key: keyOf(fmt.Sprint("live ", i)), Owner: rmqdedup.NewOwner(), Lease: time.Hour, Retention: time.Hour})
	}
	do(t, store, rmqdedup.OpAcquire, rmqdedup.Claimed, append(dead, live...)...)
	do(t, store, rmqdedup.OpComplete, rmqdedup.Applied, dead[:2000]...)
	for _, r := range dead {
		store.Age(r.Key, 2*time.Hour)
	}
	var wg sync.WaitGroup
	for range 3 {
		j, _, _ := newJanitor(t, store, janitor.Config{Pause: time.Microsecond})
		wg.Go(func() {
			if r, err := j.Sweep(t.Context()); err != nil || r.Unfinished {
				t.Errorf("%+v, %v", r, err)
			}
			_ = j.Stats()
		})
	}
	wg.Go(func() {
		do(t, store, rmqdedup.OpRenew, rmqdedup.Applied, live[:1500]...)
		do(t, store, rmqdedup.OpComplete, rmqdedup.Applied, live[1500:]...)
	})
	wg.Wait()
	do(t, store, rmqdedup.OpLookup, rmqdedup.Absent, dead...)
	do(t, store, rmqdedup.OpLookup, rmqdedup.InFlight, live[:1500]...)
	do(t, store, rmqdedup.OpLookup, rmqdedup.Done, live[1500:]...)
	wantNoProbe(t, store)
}
