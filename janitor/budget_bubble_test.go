package janitor_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// At its start it states its interval, and for each consumer lease and interval against the time that the retries leave; it warns where a fleet
// that relied on it alone would be too late.
func TestRunStatesTheBudget(t *testing.T) {
	const lateText = "a fleet that relied on the janitor alone would find its message in the dead-letter queue. The wrapper takes over expired claims without it"
	for name, tt := range map[string]struct {
		cfg      janitor.Config
		consumer rmqdedup.Config
		late     bool
		started  string
		detail   string
	}{
		"defaults": {
			started: `schedule="@every 1m" longestInterval=1m0s jitter=6s sweepTimeout=1m0s batchSize=200`,
			detail: "lease=1m0s retriesOutlast=4h59m40s detail=\"a dead owner's claim is cleared 4m16s after its last renewal at the latest: " +
				"lease 1m0s, interval 1m0s, jitter 6s, two sweeps of at most 1m5s; the retries outlast 4h59m40s: 16 retries at delay levels from 3 on: 4h45m40s; the last attempt's wait: 14m0s",
		},
		"every night": {
			cfg: janitor.Config{Schedule: "0 3 * * *"}, late: true,
			started: `schedule="0 3 * * *" longestInterval=24h0m0s jitter=30s`,
			detail:  "cleared 24h3m40s after its last renewal at the latest: lease 1m0s, interval 24h0m0s, jitter 30s, two sweeps of at most 1m5s; the retries outlast 4h59m40s",
		},
		"few retries": {
			consumer: rmqdedup.Config{MaxReconsumeTimes: 3, ConsumeTimeout: time.Minute}, late: true,
			started: "@every 1m",
			detail:  "the retries outlast 2m36s: 3 retries at delay levels from 3 on: 1m40s; the last attempt's wait: 56s",
		},
		"few retries, and in time": {
			cfg:      janitor.Config{Schedule: "@every 10s", Jitter: janitor.NoJitter, SweepTimeout: 10 * time.Second, StatementTimeout: time.Second},
			consumer: rmqdedup.Config{MaxReconsumeTimes: 3, ConsumeTimeout: time.Minute},
			started:  `schedule="@every 10s" longestInterval=10s jitter=0s sweepTimeout=10s`,
			detail:   "cleared 1m32s after its last renewal at the latest: lease 1m0s, interval 10s, jitter 0s, two sweeps of at most 11s; the retries outlast 2m36s",
		},
		"not renewed": {
			consumer: rmqdedup.Config{NoRenewal: true}, started: "@every 1m", detail: "lease 10m0s, interval 1m0s",
		},
		"just in time": {
			cfg:      janitor.Config{Schedule: "@every 10s", Jitter: janitor.NoJitter, SweepTimeout: 42 * time.Second, StatementTimeout: time.Second},
			consumer: rmqdedup.Config{MaxReconsumeTimes: 3, ConsumeTimeout: time.Minute},
			started:  "@every 10s", detail: "cleared 2m36s after its last renewal at the latest",
		},
		"just too late": {
			cfg:      janitor.Config{Schedule: "@every 10s", Jitter: janitor.NoJitter, SweepTimeout: 42*time.Second + time.Millisecond, StatementTimeout: time.Second},
			consumer: rmqdedup.Config{MaxReconsumeTimes: 3, ConsumeTimeout: time.Minute}, late: true,
			started: "@every 10s", detail: "cleared 2m36.002s after its last renewal at the latest",
		},
		"ordered":        {consumer: rmqdedup.Config{Mode: rmqdedup.Ordered}, started: "@every 1m", detail: "the retries outlast 72h0m0s: ordered without a limit of attempts"},
		"endless lease":  {consumer: rmqdedup.Config{Lease: math.MaxInt64, InFlightWait: time.Minute}, late: true, started: "@every 1m", detail: "the retries outlast 4h59m40s"},
		"endless sweeps": {cfg: janitor.Config{SweepTimeout: math.MaxInt64, StatementTimeout: math.MaxInt64}, late: true, started: "@every 1m", detail: "the retries outlast 4h59m40s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.cfg.Consumers = map[string]rmqdedup.Config{"order-group": tt.consumer}
				j, _, log := newJanitor(t, newTable(t, 0, 0), tt.cfg)
				stop := run(t, j)
				time.Sleep(time.Minute)
				stop()
				if lines := log.lines("level=INFO", "janitor: started", tt.started); len(lines) != 1 {
					t.Errorf("logged %q", log.lines("started"))
				}
				words := []string{"level=INFO", "janitor: in time for the retries", "group=order-group", tt.detail}
				if tt.late {
					words = []string{"level=WARN", "janitor: too late for the retries", "group=order-group", tt.detail, lateText}
				}
				if lines := log.lines(words...); len(lines) != 1 || len(log.lines("for the retries")) != 1 {
					t.Errorf("logged %q, want %q", log.lines("for the retries"), words)
				}
			})
		})
	}
}

// Each group has a line, in the order of their names; without consumers there is none.
func TestBudgetOfSeveralConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, log := newJanitor(t, newTable(t, 0, 0), janitor.Config{Consumers: map[string]rmqdedup.Config{
			"b": {Lease: 2 * time.Minute}, "c": {Mode: rmqdedup.Ordered}, "a": {MaxReconsumeTimes: rmqdedup.NoReconsume, ConsumeTimeout: time.Minute},
		}})
		run(t, j)()
		lines := log.lines("for the retries")
		if len(lines) != 3 {
			t.Fatalf("logged %q", lines)
		}
		for i, want := range []string{"level=WARN msg=\"janitor: too late for the retries\" group=a", "group=b lease=2m0s", "group=c"} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("line %d is %q, want one with %q", i, lines[i], want)
			}
		}
		none, _, log := newJanitor(t, newTable(t, 0, 0), janitor.Config{})
		run(t, none)()
		if lines := log.lines(); len(lines) != 1 {
			t.Errorf("without consumers: logged %q", lines)
		}
	})
}
