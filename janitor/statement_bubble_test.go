package janitor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

var errAway = errors.New("the store is away")

// firstTimes lets a statement fail that many times.
func firstTimes(times int, which string, spoil func(context.Context) error) func(context.Context, string, int) error {
	return func(ctx context.Context, what string, _ int) error {
		if what != which || times == 0 {
			return nil
		}
		times--
		return spoil(ctx)
	}
}

func away(context.Context) error { return errAway }

// hang is a statement that does not end before its context does.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("waiting for an answer: %w", ctx.Err())
}

// Each statement that fails is tried again, a bounded number of times, with pauses that grow.
func TestFailedStatementIsTriedAgain(t *testing.T) {
	for _, what := range []string{"expired", "clear", "purge"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 10, 10)
				tab.spoil = firstTimes(janitor.Retries, what, away)
				j, _, log := newJanitor(t, tab, janitor.Config{})
				begin := time.Now()
				r, err := j.Sweep(t.Context())
				if err != nil || r.Cleared != 10 || r.Purged != 10 || r.Retries != janitor.Retries || r.Timeouts != 0 {
					t.Errorf("%+v, %v", r, err)
				}
				at := tab.begun(begin, what)
				if len(at) < janitor.Retries+1 {
					t.Fatalf("%d attempts", len(at))
				}
				for i := range janitor.Retries {
					most := 500 * time.Millisecond << i
					if pause := at[i+1] - at[i]; pause < most/2 || pause > most {
						t.Errorf("pause %d is %v, want %v to %v", i+1, pause, most/2, most)
					}
				}
				if len(log.lines("level=INFO", "retries=3", "timeouts=0")) != 1 {
					t.Errorf("logged %q", log.lines())
				}
			})
		})
	}
}

// One that fails too often ends the sweep with its error, and what was done before stays done; the next sweep goes on.
func TestFailedStatementEndsTheSweep(t *testing.T) {
	for what, want := range map[string]string{
		"expired": "janitor: listing expired claims", "clear": "janitor: clearing expired claims", "purge": "janitor: purging DONE",
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 10, 10)
				tab.spoil = firstTimes(janitor.Retries+1, what, away)
				j, h, log := newJanitor(t, tab, janitor.Config{})
				r, err := j.Sweep(t.Context())
				if !errors.Is(err, errAway) || !strings.HasPrefix(err.Error(), want+": ") || !errors.Is(r.Err, errAway) || r.Retries != janitor.Retries || r.Purged != 0 {
					t.Errorf("%+v, %v", r, err)
				}
				if cleared := map[string]int{"purge": 10}[what]; r.Cleared != cleared {
					t.Errorf("%d cleared, want %d", r.Cleared, cleared)
				}
				if len(log.lines("level=WARN", "sweep failed, the next one goes on", "the store is away", "retries=3")) != 1 {
					t.Errorf("logged %q", log.lines())
				}
				if len(h.heard()) != 1 || !errors.Is(h.heard()[0].Err, errAway) {
					t.Errorf("heard %+v", h.heard())
				}
				if r, err := j.Sweep(t.Context()); err != nil || r.Purged != 10 {
					t.Errorf("the next one: %+v, %v", r, err)
				}
				if s := j.Stats(); s.Sweeps != 2 || s.Failed != 1 || s.Cleared != 10 || s.Purged != 10 || s.Retries != janitor.Retries || s.Last.Err != nil {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// What no further attempt would change is not tried again.
func TestClosedStoreIsNotTriedAgain(t *testing.T) {
	for _, hopeless := range []error{rmqdedup.ErrClosed, rmqdedup.ErrBadRequest} {
		synctest.Test(t, func(t *testing.T) {
			tab := newTable(t, 10, 10)
			tab.spoil = func(context.Context, string, int) error { return fmt.Errorf("memory: %w", hopeless) }
			j, _, _ := newJanitor(t, tab, janitor.Config{})
			if r, err := j.Sweep(t.Context()); !errors.Is(err, hopeless) || r.Retries != 0 || r.Elapsed != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			wantSaid(t, tab.statements(), "expired 50")
		})
	}
}

// A statement has five seconds. One that does not end is called off, and tried again with half as many rows; the batch then grows back slowly.
func TestTimeoutHalvesTheBatch(t *testing.T) {
	for _, what := range []string{"expired", "clear", "purge"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 60, 60)
				tab.spoil = firstTimes(2, what, hang)
				j, _, log := newJanitor(t, tab, janitor.Config{})
				begin := time.Now()
				r, err := j.Sweep(t.Context())
				if err != nil || r.Cleared != 60 || r.Purged != 60 || r.Timeouts != 2 || r.Retries != 2 {
					t.Errorf("%+v, %v", r, err)
				}
				at := tab.begun(begin, what)
				if limit := at[1] - at[0]; limit < janitor.DefaultStatementTimeout || limit > janitor.DefaultStatementTimeout+500*time.Millisecond {
					t.Errorf("the second attempt came %v after the first", limit)
				}
				said := tab.statements(what)
				switch what {
				case "expired":
					wantSaid(t, said[:4], "expired 50", "expired 25", "expired 12", "expired 22")
				case "clear":
					wantSaid(t, said, "clear 50", "clear 25", "clear 12", "clear 22", "clear 16", "clear 10")
				case "purge": // at 60 after the claims
					wantSaid(t, said, "purge 70", "purge 35", "purge 17", "purge 27", "purge 37", "purge 47")
				}
				if r.SmallestBatch >= 25 {
					t.Errorf("the smallest batch is %d", r.SmallestBatch)
				}
				if len(log.lines("level=INFO", "retries=2", "timeouts=2")) != 1 {
					t.Errorf("logged %q", log.lines())
				}
			})
		})
	}
}

// A store's own time limit counts as one too.
func TestTimeoutOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 60)
		tab.spoil = firstTimes(1, "purge", func(context.Context) error { return fmt.Errorf("mysql: after 3s: %w", context.DeadlineExceeded) })
		j, _, _ := newJanitor(t, tab, janitor.Config{})
		if r, err := j.Sweep(t.Context()); err != nil || r.Timeouts != 1 || r.Purged != 60 {
			t.Errorf("%+v, %v", r, err)
		}
		wantSaid(t, tab.statements("purge")[:2], "purge 50", "purge 25")
	})
}

// A batch that stays too slow comes down to one row; the next sweep begins there, and not at the size that did not work.
func TestTimeoutsComeDownToOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 30)
		tab.spoil = func(ctx context.Context, what string, rows int) error {
			if what == "purge" && rows > 1 {
				return hang(ctx)
			}
			return nil
		}
		j, _, _ := newJanitor(t, tab, janitor.Config{BatchSize: 160, StatementTimeout: time.Second})
		r, err := j.Sweep(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || r.Timeouts != janitor.Retries+1 || r.Err == nil {
			t.Errorf("%+v, %v", r, err)
		}
		wantSaid(t, tab.statements("purge"), "purge 40", "purge 20", "purge 10", "purge 5")
		if r, _ := j.Sweep(t.Context()); r.Purged == 0 || r.SmallestBatch != 1 {
			t.Errorf("the next one: %+v", r)
		}
		wantSaid(t, tab.statements("purge")[4:8], "purge 2", "purge 1", "purge 1", "purge 9")
	})
}

// No attempt begins after the sweep's time, however many are left.
func TestRetriesEndWithTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 100)
		tab.spoil = func(ctx context.Context, what string, _ int) error {
			if what == "purge" {
				return hang(ctx)
			}
			return nil
		}
		j, _, _ := newJanitor(t, tab, janitor.Config{SweepTimeout: 7 * time.Second})
		r, err := j.Sweep(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || r.Timeouts != 2 || r.Elapsed > 7*time.Second+janitor.DefaultStatementTimeout {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A sweep that is called off ends at once, in whatever it is doing, and is told as that.
func TestSweepIsCalledOff(t *testing.T) {
	for name, spoil := range map[string]func(context.Context, string, int) error{
		"in a statement":       func(ctx context.Context, _ string, _ int) error { return hang(ctx) },
		"between two attempts": func(context.Context, string, int) error { return errAway },
		"in a pause":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 0, 1_000_000)
				tab.spoil = spoil
				j, _, log := newJanitor(t, tab, janitor.Config{Pause: time.Second})
				ctx, cancel := context.WithCancel(t.Context())
				begin := time.Now()
				time.AfterFunc(100*time.Millisecond, cancel)
				r, err := j.Sweep(ctx)
				if err == nil || r.Retries != 0 || r.Timeouts != 0 || r.Unfinished || time.Since(begin) != 100*time.Millisecond {
					t.Errorf("%+v, %v, after %v", r, err, time.Since(begin))
				}
				if _, done := tab.rows(); r.Purged != 1_000_000-done || name == "in a pause" && r.Purged == 0 {
					t.Errorf("%d are purged, and %d are left", r.Purged, done)
				}
				if name != "between two attempts" && (!errors.Is(err, context.Canceled) || len(log.lines("level=INFO", "sweep called off")) != 1) {
					t.Errorf("%v, logged %q", err, log.lines())
				}
			})
		})
	}
}

// halfway is a store that clears in several steps and fails after the first, once.
type halfway struct {
	*table
	failed bool
}

func (h *halfway) Clear(ctx context.Context, records []rmqdedup.Record) (int, error) {
	if h.failed {
		return h.table.Clear(ctx, records)
	}
	h.failed = true
	n, err := h.table.Clear(ctx, records[:len(records)/2])
	return n, errors.Join(err, errAway)
}

// What a statement did before it failed is counted.
func TestPartOfABatchIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := newJanitor(t, &halfway{table: newTable(t, 40, 0)}, janitor.Config{})
		if r, err := j.Sweep(t.Context()); err != nil || r.Cleared != 40 || r.Left != 0 || r.Retries != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
