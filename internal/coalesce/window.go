package coalesce

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// probeEvery is how often the round trip is measured, while calls are made.
	probeEvery = 10 * time.Second
	// pings are how many are made each time. The shortest counts: a busy machine only ever makes them longer.
	pings = 5
	// remembered is of how many measurements the shortest counts, for the same reason. A way that has become longer is so
	// noticed after a minute.
	remembered = 6
)

// Window returns how many calls are to be under way over a round trip of that length: one for each step of it, at least one and at
// most so many. Then a call that waits for one to end waits for a step, and the window costs next to nothing on a long way.
func Window(roundTrip, step time.Duration, most int) int {
	return int(min(max(1, roundTrip/step), time.Duration(max(1, most))))
}

// probes measure the round trip.
type probes struct {
	began  time.Time // when the coalescer was made
	due    atomic.Int64
	recent []time.Duration
}

// probe measures the round trip, in the background, if it is time.
func (c *Coalescer) probe() {
	if c.config.Ping == nil {
		return
	}
	now, due := int64(time.Since(c.probes.began)), c.probes.due.Load()
	if now < due || !c.probes.due.CompareAndSwap(due, now+int64(probeEvery)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spawn(c.measure)
}

func (c *Coalescer) measure() {
	ctx, end := context.WithTimeout(context.Background(), min(c.config.Limit, probeEvery))
	defer end()
	shortest := time.Duration(-1)
	for range pings {
		began := time.Now()
		if c.config.Ping(ctx) != nil {
			break // what is wrong, the calls say
		}
		if took := time.Since(began); shortest < 0 || took < shortest {
			shortest = took
		}
	}
	if shortest < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window = max(1, c.config.Window(c.probes.shortest(shortest)))
}

// shortest returns the shortest of the last few measurements.
func (p *probes) shortest(now time.Duration) time.Duration {
	if len(p.recent) == remembered {
		p.recent = append(p.recent[:0], p.recent[1:]...)
	}
	p.recent = append(p.recent, now)
	for _, d := range p.recent {
		now = min(now, d)
	}
	return now
}
