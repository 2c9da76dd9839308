package janitor

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// A Report says what became of one sweep.
type Report struct {
	Started time.Time
	Elapsed time.Duration

	// Native: the store lets claims and DONE expire by itself; there was nothing to do, and all figures are zero.
	Native bool
	// Skipped: another sweep of this janitor was going on. Err is [ErrSweeping], and all figures are zero.
	Skipped bool
	// Unfinished: the sweep's time was over before everything was found. The next sweep goes on.
	Unfinished bool

	// Cleared and Purged count rows that are gone: claims, and DONE. A statement that took effect though its answer was lost is not in them.
	Cleared, Purged int
	// Left counts claims that were found and not cleared, since they were renewed, taken over or finished in between.
	Left int

	Batches  int // statements that deleted something, or tried to clear claims
	Retries  int // statements that were tried again
	Timeouts int // attempts that did not end within their time
	// SmallestBatch is how small a batch the pace had come down to, in rows.
	SmallestBatch int
	// LongestProbe is the slowest probe beside a batch, and IdleProbe what a probe takes on the quiet table; zero if there was nothing to do.
	LongestProbe, IdleProbe time.Duration

	// Err is what ended the sweep before its time; nil if nothing did.
	Err error
}

// Found says whether the sweep came upon anything.
func (r *Report) Found() bool { return r.Cleared+r.Left+r.Purged > 0 }

// Stats are a janitor's sums over all sweeps.
type Stats struct {
	Sweeps     int // begun, the failed and unfinished ones included
	Failed     int // ended by an error, or called off
	Unfinished int
	Skipped    int // not begun; not in Sweeps

	Cleared, Left, Purged      int
	Batches, Retries, Timeouts int

	// Last is the report of the sweep that ended last; zero before the first.
	Last Report
}

func (s *Stats) add(r *Report) {
	if r.Skipped {
		s.Skipped++
		return
	}
	s.Sweeps++
	if r.Err != nil {
		s.Failed++
	}
	if r.Unfinished {
		s.Unfinished++
	}
	s.Cleared += r.Cleared
	s.Left += r.Left
	s.Purged += r.Purged
	s.Batches += r.Batches
	s.Retries += r.Retries
	s.Timeouts += r.Timeouts
	s.Last = *r
}

// An Observer hears of every sweep, the failed, skipped and empty ones included: it counts, or alerts. It is called when the sweep has
// ended, by the goroutine that swept. A panic in it is logged and goes no further.
type Observer interface {
	Sweep(ctx context.Context, r Report)
}

// log tells of a sweep: at Debug if it found nothing, at Info what it did, at Warn what someone should look into.
func (r *Report) log(ctx context.Context, l *slog.Logger) {
	level, msg := slog.LevelDebug, "janitor: swept"
	switch {
	case r.Skipped:
		level, msg = slog.LevelInfo, "janitor: sweep skipped, as one is still going on"
	case r.Native:
		msg = "janitor: nothing to sweep, the store does it"
	case r.Err != nil && errors.Is(r.Err, context.Canceled) && ctx.Err() != nil:
		level, msg = slog.LevelInfo, "janitor: sweep called off"
	case r.Err != nil:
		level, msg = slog.LevelWarn, "janitor: sweep failed, the next one goes on"
	case r.Unfinished:
		level, msg = slog.LevelWarn, "janitor: sweep out of time, the next one goes on"
	case r.Found():
		level = slog.LevelInfo
	}
	if !l.Enabled(ctx, level) {
		return
	}
	l.LogAttrs(ctx, level, msg, r.attrs()...)
}

func (r *Report) attrs() []slog.Attr {
	var attrs []slog.Attr
	if !r.Skipped && !r.Native {
		attrs = append(attrs,
			slog.Duration("elapsed", r.Elapsed.Round(time.Millisecond)),
			slog.Int("cleared", r.Cleared), slog.Int("left", r.Left), slog.Int("purged", r.Purged), slog.Int("batches", r.Batches))
	}
	if r.Batches > 0 {
		attrs = append(attrs, slog.Int("smallestBatch", r.SmallestBatch),
			slog.Duration("longestProbe", r.LongestProbe), slog.Duration("idleProbe", r.IdleProbe))
	}
	if r.Retries+r.Timeouts > 0 {
		attrs = append(attrs, slog.Int("retries", r.Retries), slog.Int("timeouts", r.Timeouts))
	}
	if r.Err != nil && !r.Skipped {
		attrs = append(attrs, slog.Any("err", r.Err))
	}
	return attrs
}
