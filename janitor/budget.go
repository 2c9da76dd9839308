package janitor

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A budget is the time that one consumer group's retries leave.
type budget struct {
	group string
	rmqdedup.Budget
}

// cleared is how long after it was made, or renewed for the last time, a dead owner's claim is cleared at the latest: it expires just after
// a sweep looked for claims, which then purges for as long as it may; the next sweep begins an interval and the jitter
// later, and takes as long.
func (c *settings) cleared(lease time.Duration) time.Duration {
	return sum(lease, c.interval, c.jitter(), c.longestSweep(), c.longestSweep())
}

// longestSweep is how long a sweep may take: the last statement may begin just before its time is over.
func (c *settings) longestSweep() time.Duration { return sum(c.SweepTimeout, c.StatementTimeout) }

func (c *settings) jitter() time.Duration { return max(c.Jitter, 0) }

// sum does not overflow.
func sum(durations ...time.Duration) (total time.Duration) {
	for _, d := range durations {
		if d > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += d
	}
	return total
}

// introduce logs when the janitor sweeps, and whether the retries of its consumers would outlast a dead owner's claim if nobody but the janitor
// removed it.
func (c *settings) introduce(ctx context.Context, l *slog.Logger) {
	l.LogAttrs(ctx, slog.LevelInfo, "janitor: started", slog.String("schedule", c.Schedule), slog.Duration("longestInterval", c.interval),
		slog.Duration("jitter", c.jitter()), slog.Duration("sweepTimeout", c.SweepTimeout), slog.Int("batchSize", c.BatchSize))
	for _, b := range c.budgets {
		level, msg := slog.LevelInfo, "janitor: in time for the retries"
		if c.cleared(b.Lease) > b.Outlast {
			level, msg = slog.LevelWarn, "janitor: too late for the retries"
		}
		l.LogAttrs(ctx, level, msg, slog.String("group", b.group), slog.Duration("lease", b.Lease), slog.Duration("retriesOutlast", b.Outlast),
			slog.String("detail", c.arithmetic(&b)))
	}
}

// arithmetic shows the sum.
func (c *settings) arithmetic(b *budget) string {
	s := fmt.Sprintf("a dead owner's claim is cleared %v after its last renewal at the latest: lease %v, interval %v, jitter %v, two sweeps of at most %v; the retries outlast %v: %s",
		c.cleared(b.Lease), b.Lease, c.interval, c.jitter(), c.longestSweep(), b.Outlast, b.Sum())
	if c.cleared(b.Lease) > b.Outlast {
		s += "; a fleet that relied on the janitor alone would find its message in the dead-letter queue. The wrapper takes over expired claims without it; " +
			"for whatever else reads the table, sweep more often, or raise MaxReconsumeTimes"
	}
	return s
}
