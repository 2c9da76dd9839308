package janitor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// Where nothing is expired a sweep is two statements, and no probe.
func TestNothingExpiredCostsTwoStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 0)
		j, h, log := newJanitor(t, tab, janitor.Config{})
		for range 3 {
			r, err := j.Sweep(t.Context())
			if err != nil || r.Found() || r.Batches != 0 || r.IdleProbe != 0 || r.Unfinished || r.Elapsed != 0 {
				t.Errorf("%+v, %v", r, err)
			}
		}
		wantSaid(t, tab.statements(), "expired 50", "purge 50", "expired 50", "purge 50", "expired 50", "purge 50")
		if len(h.heard()) != 3 {
			t.Errorf("the observer heard of %d sweeps", len(h.heard()))
		}
		if lines := log.lines(); len(lines) != 3 || len(log.lines("level=DEBUG", "janitor: swept")) != 3 {
			t.Errorf("logged %q", lines)
		}
	})
}

// A sweep clears what is expired, then purges what is past its retention, until it finds nothing more.
func TestSweepClearsThenPurges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 120, 130)
		j, h, log := newJanitor(t, tab, janitor.Config{})
		r, err := j.Sweep(t.Context())
		if err != nil || r.Cleared != 120 || r.Purged != 130 || r.Left != 0 || r.Retries != 0 || r.Timeouts != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		wantSaid(t, tab.statements("expired", "clear", "purge"),
			"expired 50", "clear 50", "expired 60", "clear 60", "expired 70", "clear 10", "expired 80",
			"purge 80", "purge 90", "purge 100")
		if claims, done := tab.rows(); claims+done > 0 {
			t.Errorf("%d claims and %d DONE are left", claims, done)
		}
		if r.Batches != 5 || r.SmallestBatch != 50 {
			t.Errorf("%d batches, the smallest of %d", r.Batches, r.SmallestBatch)
		}
		if lines := log.lines("level=INFO", "janitor: swept", "cleared=120", "purged=130", "left=0", "batches=5", "smallestBatch=50"); len(lines) != 1 || len(log.lines()) != 1 {
			t.Errorf("logged %q", log.lines())
		}
		if got := h.heard(); len(got) != 1 || got[0] != r {
			t.Errorf("the observer heard %+v", got)
		}
		if r, err := j.Sweep(t.Context()); err != nil || r.Found() {
			t.Errorf("once more: %+v, %v", r, err)
		}
	})
}

// On a real store: what is expired beyond its grace goes, and so does what is past its retention; nothing else does. (The memory store
// drops some by itself as it is asked for other things.)
func TestSweepLeavesWhatIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		const each = 100
		kind := func(name string, lease, grace, retention time.Duration) (reqs []rmqdedup.Request) {
			for i := range each {
				reqs = append(reqs, rmqdedup.Request{Key: keyOf(fmt.Sprint(name, i)), Owner: rmqdedup.NewOwner(), Lease: lease, Grace: grace, Retention: retention})
			}
			return reqs
		}
		do := func(op rmqdedup.Op, reqs []rmqdedup.Request) []rmqdedup.Answer {
			answers, err := rmqdedup.Do(t.Context(), store, op, reqs)
			if err != nil {
				t.Fatal(err)
			}
			return answers
		}
		past := kind("past its grace", 30*time.Minute, 30*time.Minute, 1)
		without := kind("without grace", time.Hour, 0, 1)
		within := kind("within its grace", 30*time.Minute, 30*time.Minute+time.Millisecond, 1)
		live := kind("live", time.Hour+time.Millisecond, 0, 1)
		over := kind("past its retention", time.Hour, 0, time.Hour)
		done := kind("done", time.Hour, 0, time.Hour+time.Millisecond)
		do(rmqdedup.OpAcquire, slices.Concat(past, without, within, live, over, done))
		do(rmqdedup.OpComplete, slices.Concat(over, done))
		time.Sleep(time.Hour)

		j, _, _ := newJanitor(t, rmqdedup.Intercept(store, func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			if reqs[0].Key.Group != janitor.ProbeGroup {
				t.Errorf("%v of %v", op, reqs[0].Key)
			}
			return nil, errAway // no probe, during which the store would drop some by itself
		}), janitor.Config{Pause: 1})
		r, err := j.Sweep(t.Context())
		if err != nil || r.Cleared != 2*each || r.Purged != each || r.Left != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		for _, r := range slices.Concat(past, without, over) {
			store.Age(r.Key, -24*time.Hour) // were it still there, it would be seen
		}
		for want, reqs := range map[rmqdedup.Outcome][]rmqdedup.Request{
			rmqdedup.Absent: slices.Concat(past, without, over), rmqdedup.Orphan: within, rmqdedup.InFlight: live, rmqdedup.Done: done,
		} {
			for i, a := range do(rmqdedup.OpLookup, reqs) {
				if a.Outcome != want {
					t.Errorf("%s: %v, want %v", reqs[i].Key.Value, a.Outcome, want)
				}
			}
		}
	})
}

// A claim that is renewed between the two steps stays, and is counted as left; the store then no longer lists it.
func TestRenewedMeanwhileIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 10, 0)
		back := 3
		tab.spoil = func(_ context.Context, what string, _ int) error {
			if what == "clear" {
				tab.mu.Lock()
				tab.claims = tab.claims[back:]
				back = 0
				tab.mu.Unlock()
			}
			return nil
		}
		j, _, _ := newJanitor(t, tab, janitor.Config{})
		if r, err := j.Sweep(t.Context()); err != nil || r.Cleared != 7 || r.Left != 3 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A stubborn store lists some claims again and again, and Clear leaves them.
type stubborn struct {
	*table
	stuck map[rmqdedup.Owner]bool
}

func (s *stubborn) Clear(ctx context.Context, records []rmqdedup.Record) (int, error) {
	var others []rmqdedup.Record
	for _, r := range records {
		if !s.stuck[r.Owner] {
			others = append(others, r)
		}
	}
	return s.table.Clear(ctx, others)
}

// Claims that a store lists again and again, though Clear leaves them, neither hold up the sweep nor hide those behind them.
func TestClaimsThatStayDoNotHoldUpTheOthers(t *testing.T) {
	for _, stuck := range []int{1, 49, 50, 51, 300} {
		t.Run(fmt.Sprint(stuck), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stubborn{newTable(t, 0, 20), map[rmqdedup.Owner]bool{}}
				for range stuck {
					s.stuck[s.expire().Owner] = true
				}
				for range 100 {
					s.expire()
				}
				j, _, _ := newJanitor(t, s, janitor.Config{})
				r, err := j.Sweep(t.Context())
				if err != nil || r.Left != stuck || r.Cleared != 100 || r.Purged != 20 || r.Unfinished {
					t.Errorf("%+v, %v; want %d left", r, err, stuck)
				}
			})
		})
	}
}

// Not even a store whose claims change all the time keeps a sweep from what is DONE.
func TestClaimsThatChangeAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 100, 20)
		tab.spoil = func(_ context.Context, what string, _ int) error {
			if what == "clear" {
				tab.mu.Lock()
				for i := range tab.claims {
					tab.claims[i].Until = tab.claims[i].Until.Add(time.Millisecond)
				}
				tab.mu.Unlock()
			}
			return nil
		}
		j, _, _ := newJanitor(t, tab, janitor.Config{})
		r, err := j.Sweep(t.Context())
		if err != nil || r.Cleared != 0 || r.Left < janitor.MaxLeft || r.Left > janitor.MaxLeft+janitor.DefaultBatchSize || r.Purged != 20 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A sweep has a time limit; what it did not get to is the next one's.
func TestSweepEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 100_000)
		tab.took = func(int) time.Duration { return time.Second }
		j, h, log := newJanitor(t, tab, janitor.Config{SweepTimeout: 30 * time.Second})
		r, err := j.Sweep(t.Context())
		if err != nil || !r.Unfinished || r.Err != nil || r.Purged == 0 || r.Elapsed < 30*time.Second || r.Elapsed > 31*time.Second {
			t.Errorf("%+v, %v", r, err)
		}
		if lines := log.lines("level=WARN", "out of time, the next one goes on"); len(lines) != 1 {
			t.Errorf("logged %q", log.lines())
		}
		time.Sleep(time.Second)
		next, err := j.Sweep(t.Context())
		if err != nil || next.Purged <= r.Purged {
			t.Errorf("the next one: %+v, %v; want more than %d, since it begins at the pace that was reached", next, err, r.Purged)
		}
		if s := j.Stats(); s.Unfinished != 2 || s.Sweeps != 2 || s.Failed != 0 || s.Purged != r.Purged+next.Purged || s.Last != h.heard()[1] {
			t.Errorf("stats %+v", s)
		}
		// Nothing begins after a sweep's time, not even a probe.
		for _, at := range slices.Concat(tab.begun(r.Started, "acquire"), tab.begun(r.Started, "purge")) {
			if at >= 30*time.Second && at < next.Started.Sub(r.Started) {
				t.Errorf("something begins after %v", at)
			}
		}
		if _, done := tab.rows(); done != 100_000-r.Purged-next.Purged {
			t.Errorf("%d are left, of 100000, and %d and %d are told", done, r.Purged, next.Purged)
		}
	})
}

// The batch never gets above its size, and a table of any size is done.
func TestBatchSize(t *testing.T) {
	for _, size := range []int{1, 7, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 100, 5000)
				j, _, _ := newJanitor(t, tab, janitor.Config{BatchSize: size, SweepTimeout: time.Hour})
				most := 0
				tab.spoil = func(_ context.Context, what string, rows int) error {
					if what != "expired" {
						most = max(most, rows)
					}
					return nil
				}
				if r, err := j.Sweep(t.Context()); err != nil || r.Cleared != 100 || r.Purged != 5000 {
					t.Errorf("%+v, %v", r, err)
				}
				if most > size || size < 1000 && most < size {
					t.Errorf("a batch of %d rows, want at most %d", most, size)
				}
			})
		})
	}
}

// Between batches the table is left alone for the pause, which becomes as short as it is configured.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 6000)
		j, _, _ := newJanitor(t, tab, janitor.Config{Pause: 10 * time.Millisecond})
		begin := time.Now()
		if _, err := j.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		at := tab.begun(begin, "purge")
		if first := at[1] - at[0]; first != 40*time.Millisecond {
			t.Errorf("the first pause is %v, want four times the shortest", first)
		}
		for i := 1; i < len(at); i++ {
			if pause := at[i] - at[i-1]; pause < 10*time.Millisecond {
				t.Errorf("pause %d is %v", i, pause)
			}
		}
		if last := at[len(at)-1] - at[len(at)-2]; last != 10*time.Millisecond {
			t.Errorf("the last pause is %v, want the shortest", last)
		}
	})
}
