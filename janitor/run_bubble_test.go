package janitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Run sweeps at once, and then by the schedule.
func TestRunSweepsAtOnceAndByTheSchedule(t *testing.T) {
	for spec, want := range map[string][]time.Duration{
		"":                          {0, time.Minute, 2 * time.Minute, 3 * time.Minute},
		"@every 90s":                {0, 90 * time.Second, 180 * time.Second, 270 * time.Second},
		"CRON_TZ=UTC 0 3 * * *":     {0, 3 * time.Hour, 27 * time.Hour, 51 * time.Hour}, // a bubble begins at midnight
		"CRON_TZ=Asia/Tokyo @daily": {0, 15 * time.Hour, 39 * time.Hour, 63 * time.Hour},
	} {
		t.Run(spec, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 0, 0)
				j, h, _ := newJanitor(t, tab, janitor.Config{Schedule: spec, Jitter: janitor.NoJitter})
				begin := time.Now()
				stop := run(t, j)
				time.Sleep(want[3] + time.Second)
				stop()
				if got := tab.begun(begin, "expired"); !slices.Equal(got, want) {
					t.Errorf("swept at %v, want %v", got, want)
				}
				if s := j.Stats(); s.Sweeps != 4 || len(h.heard()) != 4 || s.Failed+s.Skipped != 0 {
					t.Errorf("stats %+v, heard %d", s, len(h.heard()))
				}
				time.Sleep(48 * time.Hour)
				if got := tab.begun(begin, "expired"); len(got) != 4 {
					t.Errorf("swept at %v, though it was stopped", got)
				}
			})
		})
	}
}

// Janitors that are started at once do not sweep in the same instant, at the start or later, and none is later than it says.
func TestJitter(t *testing.T) {
	for _, jitter := range []time.Duration{0, 40 * time.Second} {
		t.Run(fmt.Sprint(jitter), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				most := jitter
				if jitter == 0 {
					most = 6 * time.Second // a tenth of the minute
				}
				const janitors = 20
				var tabs []*table
				begin := time.Now()
				var stops []func()
				for range janitors {
					tab := newTable(t, 0, 0)
					j, _, _ := newJanitor(t, tab, janitor.Config{Jitter: jitter, SweepTimeout: 10 * time.Second})
					stops = append(stops, run(t, j))
					tabs = append(tabs, tab)
				}
				time.Sleep(time.Hour)
				for _, stop := range stops {
					stop()
				}
				first := map[time.Duration]bool{}
				var late time.Duration
				for _, tab := range tabs {
					at := tab.begun(begin, "expired")
					if at[0] >= most || len(at) < int(time.Hour/(time.Minute+most)) {
						t.Errorf("swept at %v", at)
					}
					first[at[0]] = true
					for i := 1; i < len(at); i++ {
						between := at[i] - at[i-1]
						// "@every" counts in whole seconds.
						if between < time.Minute-time.Second || between >= time.Minute+most {
							t.Errorf("%v between two sweeps", between)
						}
						late = max(late, between)
					}
				}
				if len(first) < janitors-1 || late < time.Minute+most/2 {
					t.Errorf("%d of %d janitors began at a time of their own; at most %v between two sweeps", len(first), janitors, late)
				}
			})
		})
	}
}

// An outage in one sweep, or a panic of the store, the observer or the logger, does not end the schedule.
func TestScheduleSurvives(t *testing.T) {
	panics := func(context.Context, string, int) error { panic("what is this?") }
	for name, tt := range map[string]struct {
		spoil    func(context.Context, string, int) error
		observer janitor.Observer
		failed   int
		logged   []string // a line of the log, once
	}{
		"outage":          {spoil: func(context.Context, string, int) error { return errAway }, failed: 2, logged: []string{"level=WARN", "sweep failed", "the store is away"}},
		"panic":           {spoil: panics, failed: 2, logged: []string{"level=WARN", "sweep failed", "janitor: the store panicked", "what is this?"}},
		"observer panics": {observer: panicking{}, logged: []string{"level=WARN", "the observer panicked", "let me see"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, 10, 10)
				tab.spoil = tt.spoil
				j, h, log := newJanitor(t, tab, janitor.Config{Jitter: janitor.NoJitter, Observer: tt.observer})
				stop := run(t, j)
				time.Sleep(90 * time.Second) // two sweeps
				tab.set(nil)
				time.Sleep(time.Minute)
				stop()
				s := j.Stats()
				if s.Sweeps != 3 || s.Failed != tt.failed || s.Cleared != 10 || s.Purged != 10 || s.Last.Err != nil {
					t.Errorf("stats %+v", s)
				}
				if tt.observer == nil && len(h.heard()) != 3 {
					t.Errorf("the observer heard of %d sweeps", len(h.heard()))
				}
				if want := max(tt.failed, 2); len(log.lines(tt.logged...)) < want {
					t.Errorf("logged %q", log.lines())
				}
			})
		})
	}
}

type panicking struct{}

func (panicking) Sweep(context.Context, janitor.Report) { panic("let me see") }

func TestScheduleSurvivesALogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 10, 10)
		j, err := janitor.New(tab, janitor.Config{Jitter: janitor.NoJitter, Logger: slog.New(brokenHandler{slog.DiscardHandler})})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, j)
		time.Sleep(150 * time.Second)
		stop()
		if s := j.Stats(); s.Sweeps != 3 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A brokenHandler panics on reports of sweeps.
type brokenHandler struct{ slog.Handler }

func (brokenHandler) Enabled(context.Context, slog.Level) bool { return true }

func (brokenHandler) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "swept") {
		panic("no disk")
	}
	return nil
}

// A panic of the store comes with its value and stack, and what was deleted before it is told.
func TestPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 10, 10)
		tab.spoil = func(_ context.Context, what string, _ int) error {
			if what == "purge" {
				panic(errAway)
			}
			return nil
		}
		j, h, _ := newJanitor(t, tab, janitor.Config{})
		r, err := j.Sweep(t.Context())
		var p *rmqdedup.PanicError
		if !errors.As(err, &p) || !errors.Is(err, errAway) || len(p.Stack) == 0 || r.Cleared != 10 || r.Err == nil {
			t.Errorf("%+v, %v", r, err)
		}
		if len(h.heard()) != 1 {
			t.Errorf("heard %+v", h.heard())
		}
		tab.set(nil)
		if r, err := j.Sweep(t.Context()); err != nil || r.Purged != 10 {
			t.Errorf("the next one: %+v, %v", r, err)
		}
	})
}

// What is due while a sweep goes on is skipped and told, not stacked.
func TestOverlappingSweepsAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 10)
		tab.spoil = firstTimes(1, "purge", func(ctx context.Context) error { return wait(ctx, 150*time.Second) })
		j, h, log := newJanitor(t, tab, janitor.Config{Jitter: janitor.NoJitter, StatementTimeout: time.Hour})
		stop := run(t, j)
		time.Sleep(200 * time.Second)
		stop()
		var got []string
		for _, r := range h.heard() {
			got = append(got, fmt.Sprintf("%v: skipped %v, purged %d, %v", r.Started.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), r.Skipped, r.Purged, r.Err))
		}
		want := []string{
			"1m0s: skipped true, purged 0, janitor: a sweep is going on", "2m0s: skipped true, purged 0, janitor: a sweep is going on",
			"0s: skipped false, purged 10, <nil>", "3m0s: skipped false, purged 0, <nil>",
		}
		if !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
		if s := j.Stats(); s.Sweeps != 2 || s.Skipped != 2 || s.Failed != 0 || s.Last.Skipped {
			t.Errorf("stats %+v", s)
		}
		if len(log.lines("level=INFO", "sweep skipped, as one is still going on")) != 2 {
			t.Errorf("logged %q", log.lines())
		}
	})
}

// A Sweep beside one of Run's, or of another caller, does not wait.
func TestSweepBesideASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 10)
		tab.spoil = func(ctx context.Context, _ string, _ int) error { return wait(ctx, time.Second) }
		j, _, _ := newJanitor(t, tab, janitor.Config{Jitter: janitor.NoJitter})
		stop := run(t, j)
		time.Sleep(time.Second / 2)
		before := time.Now()
		r, err := j.Sweep(t.Context())
		if !errors.Is(err, janitor.ErrSweeping) || !r.Skipped || r.Found() || time.Since(before) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		time.Sleep(30 * time.Second)
		if r, err := j.Sweep(t.Context()); err != nil || r.Skipped {
			t.Errorf("after the sweep: %+v, %v", r, err)
		}
		stop()
	})
}

// Run returns only when it has finished: a sweep under way has ended, even one whose statement heeds no context.
func TestRunReturnsWhenFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 10)
		ended := false
		tab.spoil = func(_ context.Context, what string, _ int) error {
			if what == "purge" {
				time.Sleep(3 * time.Second)
				ended = true
			}
			return nil
		}
		j, _, log := newJanitor(t, tab, janitor.Config{Jitter: janitor.NoJitter})
		stop := run(t, j)
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		if !ended || time.Since(begin) != 2*time.Second {
			t.Errorf("Run returned after %v; the statement had ended: %v", time.Since(begin), ended)
		}
		if len(log.lines("level=INFO", "sweep called off")) != 1 || len(log.lines("level=WARN")) != 0 {
			t.Errorf("logged %q", log.lines())
		}
	})
}

// A sweep of Run that heeds its context is called off at once.
func TestRunCallsASweepOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 10)
		tab.spoil = func(ctx context.Context, _ string, _ int) error { return hang(ctx) }
		j, h, _ := newJanitor(t, tab, janitor.Config{Jitter: janitor.NoJitter})
		stop := run(t, j)
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		if heard := h.heard(); time.Since(begin) != 0 || len(heard) != 1 || !errors.Is(heard[0].Err, context.Canceled) {
			t.Errorf("after %v, heard %+v", time.Since(begin), heard)
		}
	})
}

func TestRunOfAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 0, 10)
		j, h, _ := newJanitor(t, tab, janitor.Config{Jitter: janitor.NoJitter})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := j.Run(ctx); err != nil || len(tab.statements()) != 0 || len(h.heard()) != 0 {
			t.Errorf("%v; statements %q, heard %+v", err, tab.statements(), h.heard())
		}
	})
}

// One Run at a time, and as many as one likes after one another.
func TestSecondRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, h, _ := newJanitor(t, newTable(t, 0, 0), janitor.Config{Jitter: janitor.NoJitter})
		for round := range 2 {
			stop := run(t, j)
			time.Sleep(time.Second)
			if err := j.Run(t.Context()); !errors.Is(err, janitor.ErrRunning) {
				t.Errorf("beside another: %v", err)
			}
			stop()
			if len(h.heard()) != round+1 {
				t.Errorf("round %d: heard of %d sweeps", round, len(h.heard()))
			}
		}
	})
}

// A store without anything to clear, as Redis is.
type expiring struct{ rmqdedup.Store }

func TestNative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 10, 10)
		j, h, log := newJanitor(t, expiring{tab.Store}, janitor.Config{})
		for range 2 {
			r, err := j.Sweep(t.Context())
			if err != nil || !r.Native || r.Started.IsZero() || r.Found() || r.Elapsed != 0 {
				t.Errorf("%+v, %v", r, err)
			}
		}
		stop := run(t, j)
		time.Sleep(24 * time.Hour)
		stop()
		if len(tab.statements()) > 0 {
			t.Errorf("the statements are %q", tab.statements())
		}
		if lines := log.lines("level=INFO"); len(lines) != 1 || !strings.Contains(lines[0], "nothing to clear: the store lets claims and DONE expire by itself") || !strings.Contains(lines[0], "expiring") {
			t.Errorf("logged %q", lines)
		}
		if len(log.lines("level=WARN")) > 0 || len(h.heard()) != 2 || j.Stats().Sweeps != 2 {
			t.Errorf("logged %q; heard %+v", log.lines(), h.heard())
		}
	})
}

// The store that is swept is found behind decorators; probes go through them, as claims do.
func TestSweeperIsFoundBehindDecorators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(t, 10, 10)
		through := 0
		store := rmqdedup.Intercept(tab, func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			through++
			return rmqdedup.Do(ctx, next, op, reqs)
		})
		j, _, _ := newJanitor(t, store, janitor.Config{})
		if r, err := j.Sweep(t.Context()); err != nil || r.Cleared != 10 || r.Purged != 10 || through < 2*janitor.QuietProbes {
			t.Errorf("%+v, %v; %d operations of probes", r, err, through)
		}
	})
}
