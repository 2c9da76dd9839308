package janitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

var (
	// ErrSweeping is the error of a sweep that was skipped, as another one of the same janitor was going on.
	ErrSweeping = errors.New("janitor: a sweep is going on")

	// ErrRunning is the error of [Janitor.Run] while another Run of the same janitor goes on.
	ErrRunning = errors.New("janitor: it is running already")
)

// A Janitor sweeps one state table. Make it with [New]. It is safe for concurrent use, and has a goroutine only while [Janitor.Run]
// or [Janitor.Sweep] goes on.
type Janitor struct {
	store   rmqdedup.Store
	sweeper rmqdedup.Sweeper // nil: the store lets its records expire by itself
	cfg     *settings

	running  atomic.Bool
	sweeping atomic.Bool
	native   sync.Once // tells that there is nothing to clear

	pace *pace // of whoever is sweeping; it lasts from sweep to sweep

	mu    sync.Mutex
	stats Stats
}

// New returns a janitor for a store. The store is the caller's: it is not closed by the janitor, and may be the one that a consumer in
// the same process uses. A configuration that cannot work is refused with all its problems at once.
func New(store rmqdedup.Store, cfg Config) (*Janitor, error) {
	s, err := prepare(cfg)
	if store == nil {
		err = errors.Join(errors.New("janitor: the store is nil; open one with storage.Open, or make it with New of its package"), err)
	}
	if err != nil {
		return nil, err
	}
	j := &Janitor{store: store, cfg: s, pace: newPace(s.BatchSize, s.Pause)}
	j.sweeper, _ = rmqdedup.Find[rmqdedup.Sweeper](store)
	return j, nil
}

// Run sweeps once at its start and then by the schedule, until ctx ends. It returns nil when it has finished: a sweep under way is called
// off with ctx, and has ended. Where the store lets its records expire by itself, Run only waits.
//
// A sweep that fails or panics is told and does not end the schedule. One that is due while another goes on is skipped.
// A second Run beside the first returns [ErrRunning].
func (j *Janitor) Run(ctx context.Context) error {
	if !j.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer j.running.Store(false)
	if j.sweeper == nil {
		j.tellNative(ctx)
		<-ctx.Done()
		return nil
	}
	j.cfg.introduce(ctx, j.log())

	// What a sweep recovers from is told. cron's Recover is for what may panic in telling: somebody's slog.Handler.
	c := cron.New(cron.WithLogger(cron.DiscardLogger), cron.WithChain(cron.Recover(cron.DiscardLogger)))
	c.Schedule(&loose{Schedule: j.cfg.schedule, jitter: j.cfg.jitter()}, cron.FuncJob(func() {
		if ctx.Err() == nil {
			_, _ = j.Sweep(ctx) // it has told what became of it
		}
	}))
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	return nil
}

// Sweep sweeps once, for those who schedule it themselves. The error is that of the [Report]; what had been cleared and purged before it stays so.
//
// It does not wait for another sweep of the same janitor, of Run or of another caller, but is skipped: it returns [ErrSweeping], since that sweep does
// the same work. Where the store lets its records expire by itself it does nothing ([Report.Native]).
func (j *Janitor) Sweep(ctx context.Context) (Report, error) {
	r := Report{Started: time.Now()}
	switch {
	case j.sweeper == nil:
		r.Native = true
		j.tellNative(ctx)
	case !j.sweeping.CompareAndSwap(false, true):
		r.Skipped, r.Err = true, ErrSweeping
	default:
		defer j.sweeping.Store(false)
		s := &sweep{store: j.store, sweeper: j.sweeper, cfg: j.cfg, pace: j.pace, until: r.Started.Add(j.cfg.SweepTimeout), report: &r}
		r.Err = s.run(ctx)
		r.Elapsed = time.Since(r.Started)
	}
	j.tell(ctx, r)
	return r, r.Err
}

// Stats returns the sums over all sweeps so far.
func (j *Janitor) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

// tell counts, logs and passes on a sweep's report.
func (j *Janitor) tell(ctx context.Context, r Report) {
	j.mu.Lock()
	j.stats.add(&r)
	j.mu.Unlock()
	r.log(ctx, j.log())
	if j.cfg.Observer == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			err := &rmqdedup.PanicError{Value: v, Stack: debug.Stack()}
			j.log().LogAttrs(ctx, slog.LevelWarn, "janitor: the observer panicked", slog.Any("err", err))
		}
	}()
	j.cfg.Observer.Sweep(ctx, r)
}

// tellNative tells once that there is nothing to clear.
func (j *Janitor) tellNative(ctx context.Context) {
	j.native.Do(func() {
		j.log().LogAttrs(ctx, slog.LevelInfo, "janitor: nothing to clear: the store lets claims and DONE expire by itself", slog.String("store", fmt.Sprintf("%T", j.store)))
	})
}

func (j *Janitor) log() *slog.Logger {
	if j.cfg.Logger == nil {
		return slog.Default()
	}
	return j.cfg.Logger
}
