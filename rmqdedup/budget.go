package rmqdedup

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A Budget is the time that a consumer's retries leave before the dead-letter queue, as worked out by [New] from the [Config].
//
// A concurrent consumer's message that is answered retry comes back after the delay of level 3 + ReconsumeTimes, so N retries are spread over the levels 3 to 2 + N; at
// the last attempt the wrapper waits until shortly before the consume timeout. With the defaults: 4h45m40s and 14m0s.
type Budget struct {
	// Attempts is how often a message reaches the listener at most; 0 without a limit.
	Attempts int
	// Retries is the time from the first attempt to the last that the delays alone fill.
	Retries time.Duration
	// LastWait is how long the last attempt waits for a message in flight or a store that is away.
	LastWait time.Duration
	// Outlast is Retries and LastWait together: the longest lease that a dead owner may leave behind.
	Outlast time.Duration
	// Outage is the longest outage of the store that costs no message its place under the policy Closed: what the delays and the
	// time for which each attempt is held add up to.
	Outage time.Duration
	// Lease is what the Config says, or its default: what has to fit into Outlast.
	Lease time.Duration

	sum string // the figures behind Retries and LastWait, for messages
}

// Budget returns the time that the retries leave before the dead-letter queue.
func (d *Dedup) Budget() Budget { return d.budget }

// Budget returns the time that the retries of a consumer so configured leave before the dead-letter queue, for those who have no [Dedup] of it,
// such as a janitor in a process of its own. It refuses figures that no budget can be made of, and leaves all else to [New]; no key function is needed.
func (c Config) Budget() (Budget, error) {
	c = c.withDefaults()
	var problems []error
	c.validateFigures(func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) })
	if len(problems) > 0 {
		return Budget{}, fmt.Errorf("rmqdedup: no budget can be made of these figures:\n%w", errors.Join(problems...))
	}
	return c.budget(), nil
}

// Sum returns in words what Retries and LastWait are the sum of, such as "16 retries at delay levels from 3 on: 4h45m40s; the last
// attempt's wait: 14m0s".
func (b Budget) Sum() string { return b.sum }

func (c *Config) budget() Budget {
	b := Budget{LastWait: c.lastWait(), Lease: c.Lease}
	n := c.retries(c.Mode)
	switch {
	case c.Mode == Ordered && n == math.MaxInt32:
		// Such a message is tried for as long as the broker has it.
		b.Retries = c.StorageTime
		b.sum = fmt.Sprintf("ordered without a limit of attempts: the broker's storage time, %v", c.StorageTime)
		b.LastWait = 0
		b.Outlast, b.Outage = b.Retries, b.Retries
		return b
	case c.Mode == Ordered:
		// The client counts one more than it is told: N + 2 calls.
		b.Attempts = int(n) + 2
		b.Retries = times(int64(n)+1, plus(c.SuspendPause, c.InFlightWait))
		b.sum = fmt.Sprintf("%d attempts, each with an in-flight wait of %v and a pause of %v: %v; the last attempt's wait: %v", b.Attempts, c.InFlightWait, c.SuspendPause, b.Retries, b.LastWait)
		b.Outage = c.StorageTime // an ordered delivery is held until the store is back
	default:
		b.Attempts = int(n) + 1
		b.Retries = c.spread(n)
		b.sum = fmt.Sprintf("%d retries at delay levels from %d on: %v; the last attempt's wait: %v", n, firstRetryLevel, b.Retries, b.LastWait)
		b.Outage = plus(plus(b.Retries, times(int64(n), c.outageHold())), b.LastWait)
	}
	b.Outlast = plus(b.Retries, b.LastWait)
	return b
}

// spread is the sum of the delays of n retries.
func (c *Config) spread(n int32) (sum time.Duration) {
	rising := min(n, int32(len(c.DelayLevels))) // from there on it is the highest level
	for r := range rising {
		sum = plus(sum, c.delay(c.brokerLevel(r)))
	}
	return plus(sum, times(int64(n-rising), c.delay(len(c.DelayLevels))))
}

// forever is longer than any delivery is held. The figures of a budget end there too, rather than overflow.
const forever = 100 * 365 * 24 * time.Hour

func plus(a, b time.Duration) time.Duration { return min(min(a, forever)+min(b, forever), forever) }

func times(n int64, d time.Duration) time.Duration {
	if n > 0 && d > forever/time.Duration(n) {
		return forever
	}
	return time.Duration(n) * d
}

// retries is how often a message comes again in a mode before it is dead-lettered.
func (c *Config) retries(m Mode) int32 {
	switch {
	case c.MaxReconsumeTimes == NoReconsume:
		return 0
	case c.MaxReconsumeTimes >= 0:
		return c.MaxReconsumeTimes
	case m == Ordered:
		return math.MaxInt32
	default:
		return 16
	}
}

// isLast says whether a message with that many redeliveries behind it is dead-lettered if this delivery is answered retry.
func (c *Config) isLast(m Mode, reconsumeTimes int32) bool {
	n := c.retries(m)
	if m == Ordered {
		return reconsumeTimes > n // checkReconsumeTimes in the client
	}
	return reconsumeTimes >= n // the broker's rule when a message is sent back
}

// firstRetryLevel is the delay level that the broker chooses for a first retry.
const firstRetryLevel = 3

// brokerLevel is the delay level that the broker would choose for a message with that many redeliveries behind it.
func (c *Config) brokerLevel(reconsumeTimes int32) int {
	return min(firstRetryLevel+int(reconsumeTimes), len(c.DelayLevels))
}

// outlastLevel is the lowest delay level that is longer than d; the highest there is, if none is.
func (c *Config) outlastLevel(d time.Duration) int {
	for i, delay := range c.DelayLevels {
		if delay > d {
			return i + 1
		}
	}
	return len(c.DelayLevels)
}

func (c *Config) delay(level int) time.Duration { return c.DelayLevels[level-1] }

// lastWait leaves a margin before the consume timeout, at which the client would send the message back itself.
func (c *Config) lastWait() time.Duration { return c.ConsumeTimeout - c.ConsumeTimeout/15 }

// outageHold is how long a concurrent delivery is held while the store is away, before it is answered retry.
func (c *Config) outageHold() time.Duration { return c.ConsumeTimeout / 2 }
