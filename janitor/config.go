package janitor

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The defaults of a [Config].
const (
	// DefaultSchedule keeps a table small without being felt: a sweep that finds nothing is two statements.
	DefaultSchedule = "@every 1m"
	// DefaultBatchSize is what a live claim waits behind at most.
	DefaultBatchSize = 200
	// DefaultPause leaves the table to claims for at least as long as a batch of the default size takes.
	DefaultPause = 5 * time.Millisecond
	// DefaultStatementTimeout is long for a batch of 200 rows, and short beside a lease.
	DefaultStatementTimeout = 5 * time.Second
	// DefaultSweepTimeout is the default interval.
	DefaultSweepTimeout = time.Minute
	// MaxDefaultJitter bounds the default of Jitter, which is a tenth of the schedule's shortest interval.
	MaxDefaultJitter = 30 * time.Second
)

// NoJitter is the [Config.Jitter] of a janitor that sweeps exactly on time.
const NoJitter time.Duration = -1

// A Config says when a janitor sweeps, and how gently. A field left zero has its default; the zero Config is ready to use. [New] works on a
// copy.
type Config struct {
	// Schedule says when [Janitor.Run] sweeps, beside a first time at its start: a cron spec of five fields ("*/5 * * * *"), "@every 1m30s" or a descriptor such
	// as "@hourly", in the local time zone unless it begins with "CRON_TZ=Europe/Berlin ". Default: [DefaultSchedule].
	Schedule string
	// Jitter bounds the random delay before each sweep of Run, the first one included, so that a fleet's janitors do not sweep in the same instant.
	// It has to be below the schedule's shortest interval. Default: a tenth of that, and at most [MaxDefaultJitter]; [NoJitter] for none.
	Jitter time.Duration

	// BatchSize is how many rows a statement deletes at most. The pace begins below it, and comes down to a quarter of it when claims are felt to be slowed down,
	// or to a single row when statements time out. Default: [DefaultBatchSize].
	BatchSize int
	// Pause is the shortest pause between two batches. The pace begins above it, and goes up to five times of it. Default: [DefaultPause].
	Pause time.Duration
	// StatementTimeout is how long a statement may take. One that does not end in it is tried again with half the rows. Default: [DefaultStatementTimeout].
	StatementTimeout time.Duration
	// SweepTimeout is how long a sweep begins further statements. What it did not get to is left to the next one. Default: [DefaultSweepTimeout].
	SweepTimeout time.Duration

	// Consumers has the configurations of the consumers whose claims are in the table, by their groups' names. Run states their leases and its interval
	// against the time that their retries leave. Their Key is not needed.
	Consumers map[string]rmqdedup.Config

	// Logger is told of sweeps. Default: slog.Default(), as it is when there is something to tell.
	Logger *slog.Logger
	// Observer hears of every sweep. Default: nobody.
	Observer Observer
}

// settings are a Config with its defaults, and what follows from it.
type settings struct {
	Config
	schedule cron.Schedule
	interval time.Duration // between two sweeps, at most; without the jitter
	budgets  []budget
}

// withDefaults returns a copy of c in which nothing is left to default but the Jitter, which goes by the schedule.
func (c Config) withDefaults() Config {
	if c.Schedule == "" {
		c.Schedule = DefaultSchedule
	}
	if c.BatchSize == 0 {
		c.BatchSize = DefaultBatchSize
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Pause, DefaultPause)
	def(&c.StatementTimeout, DefaultStatementTimeout)
	def(&c.SweepTimeout, DefaultSweepTimeout)
	return c
}

// prepare works out what follows from c, or returns every problem of it.
func prepare(c Config) (*settings, error) {
	s := &settings{Config: c.withDefaults()}
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if schedule, err := parse(s.Schedule); err != nil {
		bad("%w", err)
	} else {
		s.schedule = schedule
		var shortest time.Duration
		shortest, s.interval = intervals(schedule)
		switch {
		case s.Jitter == 0:
			s.Jitter = min(shortest/10, MaxDefaultJitter)
		case s.Jitter >= shortest:
			bad("Jitter is %v, not below the %v between two sweeps of Schedule %q: some would never begin; make it shorter, or leave it out for a tenth", s.Jitter, shortest, s.Schedule)
		}
	}
	if s.Jitter < 0 && s.Jitter != NoJitter {
		bad("Jitter is %v; it must be above zero, or NoJitter (leave it out for its default)", s.Jitter)
	}
	if s.BatchSize < 0 {
		bad("BatchSize is %d; it must be above zero (leave it out for its default)", s.BatchSize)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Pause", s.Pause}, {"StatementTimeout", s.StatementTimeout}, {"SweepTimeout", s.SweepTimeout}} {
		if d.value < 0 {
			bad("%s is %v; it must be above zero (leave it out for its default)", d.name, d.value)
		}
	}
	if s.SweepTimeout > 0 && s.Pause >= s.SweepTimeout/longestPause {
		bad("Pause is %v, which may become %d times that, and SweepTimeout is %v: a sweep might end after a single batch; make Pause shorter or SweepTimeout longer", s.Pause, longestPause, s.SweepTimeout)
	}
	for _, group := range slices.Sorted(maps.Keys(s.Consumers)) {
		b, err := s.Consumers[group].Budget()
		if err != nil {
			bad("Consumers: %q: %w", group, err)
			continue
		}
		s.budgets = append(s.budgets, budget{group: group, Budget: b})
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("janitor: it cannot work as configured:\n%w", errors.Join(problems...))
	}
	return s, nil
}
