package janitor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// Before the first batch of a sweep the quiet table is measured; from then on each batch has one probe beside it, sent while
// the batch goes on, which is when claims feel it.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 60, 0)
		tab.took = func(int) time.Duration { return 10 * time.Millisecond }
		var busy []int
		tab.probe = func(_ context.Context, op rmqdedup.Op, rows int) time.Duration {
			if op == rmqdedup.OpAcquire {
				busy = append(busy, rows)
			}
			return time.Millisecond
		}
		j, _, _ := newJanitor(t, tab, janitor.Config{})
		r, err := j.Sweep(t.Context())
		if err != nil || r.IdleProbe != 2*time.Millisecond || r.LongestProbe != 2*time.Millisecond {
			t.Errorf("%+v, %v", r, err)
		}
		quiet, beside := busy[:janitor.QuietProbes], busy[janitor.QuietProbes:]
		if slices.Max(quiet) != 0 {
			t.Errorf("beside the first probes %v rows were deleted", quiet)
		}
		// Two batches of claims, and what finds nothing to purge.
		if !slices.Equal(beside, []int{50, 10, 70}) {
			t.Errorf("beside the others %v rows were deleted", beside)
		}
		if said := tab.statements(); said[0] != "expired 50" || said[1] != "acquire" || said[2] != "release" {
			t.Errorf("the statements are %q", said)
		}
	})
}

// A probe is a claim as any other, but of a group of its own, with a short lease and a value that never comes again; and it is released.
func TestProbeIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 300, 2000)
		j, _, _ := newJanitor(t, tab, janitor.Config{})
		if _, err := j.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i := 0; i < len(tab.ops); i += 2 {
			acquired := tab.ops[i]
			if acquired.Key.Group != janitor.ProbeGroup || acquired.Lease != janitor.ProbeLease || acquired.Lease > time.Minute || acquired.Grace != 0 {
				t.Fatalf("acquired %+v", acquired)
			}
			if seen[acquired.Key.Value] {
				t.Errorf("value %q twice", acquired.Key.Value)
			}
			seen[acquired.Key.Value] = true
			if released := tab.ops[i+1]; released.Key != acquired.Key || released.Owner != acquired.Owner {
				t.Errorf("acquired %+v, released %+v", acquired, released)
			}
		}
		if len(seen) < janitor.QuietProbes+10 {
			t.Errorf("%d probes", len(seen))
		}
		wantNoProbe(t, tab.probes)
	})
}

func wantNoProbe(t *testing.T, store *memory.Store) {
	t.Helper()
	for r, err := range store.List(context.Background(), janitor.ProbeGroup) {
		t.Errorf("a probe is left: %+v, %v", r, err)
	}
}

// A probe is released also when its answer is lost, and when the sweep is called off meanwhile.
func TestProbeIsReleasedWhateverHappens(t *testing.T) {
	for _, name := range []string{"answer lost", "called off"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 10, 10)
				ctx, cancel := context.WithCancel(t.Context())
				tab.Store = rmqdedup.Intercept(tab.probes, func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
					answers, err := rmqdedup.Do(ctx, next, op, reqs)
					if op == rmqdedup.OpAcquire {
						if name == "called off" {
							cancel()
						}
						return nil, errAway
					}
					return answers, err
				})
				j, _, _ := newJanitor(t, tab, janitor.Config{})
				r, err := j.Sweep(ctx)
				cancel()
				if failed := err != nil; failed != (name == "called off") {
					t.Errorf("%+v, %v", r, err)
				}
				wantNoProbe(t, tab.probes)
			})
		})
	}
}

// Where claims are slowed down the batches become smaller and the pauses longer, until they no longer are; and where they are not, the sweep
// comes to its full speed.
func TestPaceFollowsTheProbes(t *testing.T) {
	for name, tt := range map[string]struct {
		perRow          time.Duration // that a probe's acquire waits for each row of the batch beside it
		smallest, most  int
		shortest, least time.Duration // of all pauses, and of the last ones
	}{
		"nothing is felt":       {0, 200, 200, 5 * time.Millisecond, 5 * time.Millisecond},
		"a hundredth a row":     {20 * time.Microsecond, 45, 75, 5 * time.Millisecond, 5 * time.Millisecond},
		"the table is a single": {time.Millisecond, 50, 50, 5 * time.Millisecond, 25 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 0, 20_000)
				tab.took = func(rows int) time.Duration { return time.Duration(rows) * 25 * time.Microsecond }
				tab.probe = func(_ context.Context, op rmqdedup.Op, busy int) time.Duration {
					if op == rmqdedup.OpAcquire {
						return time.Millisecond + time.Duration(busy)*tt.perRow
					}
					return time.Millisecond
				}
				var batches []int
				tab.spoil = func(_ context.Context, what string, rows int) error {
					if what == "purge" {
						batches = append(batches, rows)
					}
					return nil
				}
				j, _, _ := newJanitor(t, tab, janitor.Config{SweepTimeout: time.Hour})
				begin := time.Now()
				r, err := j.Sweep(t.Context())
				if err != nil || r.Purged != 20_000 {
					t.Fatalf("%+v, %v", r, err)
				}
				late := batches[len(batches)*2/3:]
				mean := 0
				for _, b := range late {
					mean += b
				}
				if mean /= len(late); mean < tt.smallest || mean > tt.most {
					t.Errorf("the later batches are %v, %d on average, want %d to %d", late, mean, tt.smallest, tt.most)
				}
				at := tab.begun(begin, "purge")
				last := at[len(at)-1] - at[len(at)-2] - tab.took(late[len(late)-2])
				if last < tt.least {
					t.Errorf("the last pause is %v, want at least %v", last, tt.least)
				}
				if r.IdleProbe != 2*time.Millisecond || r.LongestProbe < r.IdleProbe {
					t.Errorf("idle probe %v, longest %v", r.IdleProbe, r.LongestProbe)
				}
			})
		})
	}
}

// When the load rises that has nothing to do with the janitor, what is quiet is measured anew, and the pace recovers.
func TestQuietIsMeasuredAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 100_000)
		begin := time.Now()
		tab.probe = func(context.Context, rmqdedup.Op, int) time.Duration {
			if time.Since(begin) > time.Second {
				return 50 * time.Millisecond
			}
			return time.Millisecond
		}
		var batches []int
		tab.spoil = func(_ context.Context, what string, rows int) error {
			if what == "purge" {
				batches = append(batches, rows)
			}
			return nil
		}
		j, _, _ := newJanitor(t, tab, janitor.Config{SweepTimeout: time.Hour})
		r, err := j.Sweep(t.Context())
		if err != nil || r.Purged != 100_000 || r.IdleProbe != 100*time.Millisecond {
			t.Errorf("%+v, %v", r, err)
		}
		if least := slices.Min(batches); least > 50 {
			t.Errorf("no batch below %d rows, though the load rose", least)
		}
		if last := batches[len(batches)-1]; last != janitor.DefaultBatchSize {
			t.Errorf("the last batch has %d rows, want %d", last, janitor.DefaultBatchSize)
		}
	})
}

// A probe that fails says that the store has trouble enough; the sweep goes on, gently.
func TestFailedProbesMakeItGentle(t *testing.T) {
	for name, spoiled := range map[string]rmqdedup.Interceptor{
		"error": func(context.Context, rmqdedup.Store, rmqdedup.Op, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			return nil, errAway
		},
		"error of the request": func(_ context.Context, _ rmqdedup.Store, _ rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			return []rmqdedup.Answer{{Err: errAway}}, nil
		},
		"no answer at all": func(context.Context, rmqdedup.Store, rmqdedup.Op, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			return nil, nil
		},
		"panic": func(context.Context, rmqdedup.Store, rmqdedup.Op, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			panic("probe")
		},
		"hang": func(ctx context.Context, _ rmqdedup.Store, _ rmqdedup.Op, _ []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			return nil, hang(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 100, 400)
				tab.Store = rmqdedup.Intercept(tab.probes, spoiled)
				j, _, _ := newJanitor(t, tab, janitor.Config{SweepTimeout: time.Hour})
				r, err := j.Sweep(t.Context())
				if err != nil || r.Cleared != 100 || r.Purged != 400 || r.SmallestBatch != janitor.DefaultBatchSize/janitor.Gentlest || r.IdleProbe != 0 {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}

// What says nothing of the quiet table lets the pace be gentle, not quick.
func TestUnmeasuredPaceIsGentle(t *testing.T) {
	for name, fails := range map[string]func(probe int) bool{
		"before the first batch": func(probe int) bool { return probe == 1 },
		"beside a batch":         func(probe int) bool { return probe > janitor.QuietProbes },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 0, 400)
				probe := 0
				tab.Store = rmqdedup.Intercept(tab.probes, func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
					if op == rmqdedup.OpAcquire {
						if probe++; fails(probe) {
							return nil, errAway
						}
					}
					return rmqdedup.Do(ctx, next, op, reqs)
				})
				j, _, _ := newJanitor(t, tab, janitor.Config{})
				r, err := j.Sweep(t.Context())
				if err != nil || r.Purged != 400 || r.SmallestBatch != janitor.DefaultBatchSize/janitor.Gentlest {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}

// Each sweep measures the quiet table for itself; batch and pause are kept.
func TestSweepMeasuresForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 2000)
		tab.probe = func(context.Context, rmqdedup.Op, int) time.Duration { return time.Millisecond }
		j, _, _ := newJanitor(t, tab, janitor.Config{})
		if r, err := j.Sweep(t.Context()); err != nil || r.IdleProbe != 2*time.Millisecond {
			t.Errorf("%+v, %v", r, err)
		}
		tab.Store = rmqdedup.Intercept(tab.probes, func(context.Context, rmqdedup.Store, rmqdedup.Op, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			return nil, errAway
		})
		tab.done = 10
		before := len(tab.statements("purge"))
		if r, err := j.Sweep(t.Context()); err != nil || r.IdleProbe != 0 || r.Purged != 10 {
			t.Errorf("the next one: %+v, %v", r, err)
		}
		wantSaid(t, tab.statements("purge")[before:], "purge 200", "purge 200")
	})
}

// A probe that fails since its sweep is called off says nothing of the store.
func TestCalledOffProbeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 1000)
		tab.took = func(int) time.Duration { return time.Minute }
		tab.probe = func(_ context.Context, _ rmqdedup.Op, busy int) time.Duration {
			return time.Duration(busy) * time.Second
		}
		j, _, _ := newJanitor(t, tab, janitor.Config{SweepTimeout: time.Hour, StatementTimeout: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(90*time.Second, cancel) // in the second batch, which is the first with a probe
		if r, err := j.Sweep(ctx); err == nil || r.Purged != 50 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := j.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		wantSaid(t, tab.statements("purge")[:3], "purge 50", "purge 50", "purge 50")
	})
}
