package rmqtest

import (
	"errors"
	"fmt"
	"time"
)

// Config sets a broker up. The zero value behaves like a young RocketMQ 5 with its default settings.
type Config struct {
	// DelayLevels are the delays of levels 1, 2, … of delayed and retried messages.
	// Default: DelayLevels(time.Second), the real broker's. A level above the last one counts as the last one.
	DelayLevels []time.Duration

	// QueuesPerTopic is how many queues a topic made on first use may have; the client asks for 4. Default: 4.
	QueuesPerTopic int

	// NoAutoCreate refuses a send to a topic that was not made beforehand. Default: such a topic is made.
	NoAutoCreate bool

	// LockLife is how long an ordered consumer's queue lock lives after its last grant. Default: 60 s. It is also how
	// long a queue stands still when it moves to another member, so a test of that sets it to less than a second.
	LockLife time.Duration

	// LongPoll bounds how long a pull waits for a message. Default: as long as the client asks, 20 s. A consumer
	// reports its progress with its next pull or on a timer of 5 s, so 100 ms makes WaitForConsumed prompt.
	LongPoll time.Duration
}

// DelayLevels returns the real broker's eighteen delay levels (1s 5s 10s 30s 1m … 10m 20m 30m 1h 2h) with second
// standing for one second: DelayLevels(time.Millisecond) is a thousand times as fast.
func DelayLevels(second time.Duration) []time.Duration {
	var levels []time.Duration
	for _, n := range []int{1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200} {
		levels = append(levels, time.Duration(n)*second)
	}
	return levels
}

func (c Config) withDefaults() Config {
	if len(c.DelayLevels) == 0 {
		c.DelayLevels = DelayLevels(time.Second)
	}
	if c.QueuesPerTopic == 0 {
		c.QueuesPerTopic = 4
	}
	if c.LockLife == 0 {
		c.LockLife = time.Minute
	}
	return c
}

// validate reports every problem at once.
func (c Config) validate() error {
	var errs []error
	for i, d := range c.DelayLevels {
		if d < 0 {
			errs = append(errs, fmt.Errorf("DelayLevels: level %d is %v, must not be negative", i+1, d))
		}
	}
	if c.QueuesPerTopic < 0 || c.QueuesPerTopic > maxQueues {
		errs = append(errs, fmt.Errorf("QueuesPerTopic is %d, must be between 1 and %d", c.QueuesPerTopic, maxQueues))
	}
	if c.LockLife < 0 {
		errs = append(errs, fmt.Errorf("LockLife is %v, must not be negative", c.LockLife))
	}
	if c.LongPoll < 0 {
		errs = append(errs, fmt.Errorf("LongPoll is %v, must not be negative", c.LongPoll))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("rmqtest: config: %w", err)
	}
	return nil
}
