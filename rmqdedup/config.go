package rmqdedup

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

// A Mode says how the consumer hands out messages.
type Mode uint8

// The modes.
const (
	// Concurrent is the client's default: many handlers at a time, a failed message comes back after a delay.
	Concurrent Mode = iota
	// Ordered is consumer.WithConsumerOrder(true): one handler a queue, a failed message holds up its queue.
	Ordered
	// Broadcasting is refused by [New]: there every instance is to run every message, which one shared state table would prevent, and
	// the client drops what fails instead of delivering it again.
	Broadcasting
)

// String returns "concurrent", "ordered" or "broadcasting".
func (m Mode) String() string {
	switch m {
	case Concurrent:
		return "concurrent"
	case Ordered:
		return "ordered"
	case Broadcasting:
		return "broadcasting"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// An OutagePolicy says what happens to a message while the store cannot be reached.
type OutagePolicy uint8

// The outage policies.
const (
	// Closed is the default: nothing runs unprotected. A concurrent delivery is held for up to half the consume timeout while the store is
	// tried again, then answered retry; an ordered one is held until the store is back.
	Closed OutagePolicy = iota
	// Open runs the handler without protection, which is counted; duplicates run as if there were no wrapper.
	Open
)

// A NoKeyPolicy says by what a message goes for which the key function has no key.
type NoKeyPolicy uint8

// The policies for messages without a key. Whichever is chosen, each such message is counted ([EventNoKey]).
const (
	// NoKeyMessageID is the default: the message goes by its message ID.
	NoKeyMessageID NoKeyPolicy = iota
	// NoKeyUnprotected runs the message without a claim, every time it comes.
	NoKeyUnprotected
)

// NoReconsume is the [Config.MaxReconsumeTimes] of a consumer whose messages are never delivered again: what the client calls 0.
const NoReconsume = -2

// The defaults of a [Config].
const (
	// DefaultLease is renewed every third of it: it survives two renewals that fail, and a dead owner's message runs again about a minute later.
	DefaultLease = time.Minute
	// DefaultLeaseUnrenewed has to be longer than the slowest handler, since nothing prolongs it.
	DefaultLeaseUnrenewed = 10 * time.Minute
	// DefaultRetention is a day more than the default of StorageTime: a message that the broker no longer has cannot come again.
	DefaultRetention = 96 * time.Hour
	// DefaultConsumeTimeout is the client's own (consumer.WithConsumeTimeout).
	DefaultConsumeTimeout = 15 * time.Minute
	// DefaultStorageTime is the broker's own (fileReservedTime = 72 hours).
	DefaultStorageTime = 72 * time.Hour
	// DefaultSuspendPause is the Java client's suspendCurrentQueueTimeMillis; the Go client's is none at all, which spins.
	DefaultSuspendPause = time.Second
	// DefaultMaxPendingWrites is enough for a store that is away for a few seconds at a few hundred messages a second.
	DefaultMaxPendingWrites = 1000
)

// DefaultDelayLevels returns the broker's own delay levels (messageDelayLevel), level 1 first: 1s 5s 10s 30s 1m 2m … 10m 20m 30m 1h 2h.
func DefaultDelayLevels() []time.Duration {
	const s, m, h = time.Second, time.Minute, time.Hour
	return []time.Duration{1 * s, 5 * s, 10 * s, 30 * s, 1 * m, 2 * m, 3 * m, 4 * m, 5 * m, 6 * m, 7 * m, 8 * m, 9 * m, 10 * m, 20 * m, 30 * m, 1 * h, 2 * h}
}

// A Config says how messages are told apart, how long the state table remembers, and what kind of consumer the listener serves. Only Key is
// required. A field left zero has its default. [New] works on a copy.
type Config struct {
	// Key picks a message's dedup key; see [KeyFunc]. Required.
	Key KeyFunc
	// Scope says which parts beside the value tell a key from others: by default the group, the topic and the tag.
	Scope Scope
	// NoKey says by what a message goes for which Key returns "", fails or panics: by default its message ID.
	NoKey NoKeyPolicy

	// Lease is how long a claim lives unless renewed. It is renewed every third of it from the moment it is acquired until it is settled, so it need
	// not be longer than the handler; it is how long a message waits whose owner died. Default: [DefaultLease], or [DefaultLeaseUnrenewed] with
	// NoRenewal. A lease that the retries cannot outlast is refused.
	Lease time.Duration
	// NoRenewal leaves claims as they were acquired: a handler that takes longer than Lease may run beside a duplicate.
	NoRenewal bool
	// Retention is how long DONE is remembered, and so how late a duplicate is still stopped. Default: [DefaultRetention]. Refused if shorter than the span of the
	// retries, warned about if shorter than StorageTime.
	Retention time.Duration
	// Outage is what happens while the store cannot be reached. Default: [Closed].
	Outage OutagePolicy
	// MaxPendingWrites bounds the completions and releases that wait for a store that cannot be reached. At the bound no new claim is made under
	// [Closed], and the oldest is dropped under [Open]. Default: [DefaultMaxPendingWrites].
	MaxPendingWrites int
	// Shadow claims, counts and logs as always, and suppresses nothing: every message reaches the handler, whose answer is given to the client
	// as it is (but for a panic, which becomes a retry). For a first roll-out.
	Shadow bool

	// Observer hears of every delivery and event. Default: [Log] on slog.Default(). Use [NopObserver] for silence, and [Observers] for several.
	Observer Observer

	// The rest says what the consumer is like, which a listener cannot see. [Dedup.ConsumerOptions] gives the client's options made
	// from the same values, so that they are stated once.

	// Mode is [Concurrent] by default.
	Mode Mode
	// Namespace is that of the consumer (consumer.WithNamespace), if any.
	Namespace string
	// MaxReconsumeTimes is how often a message may be delivered again. 0 and −1: the client's default, which is 16 for a concurrent consumer and no limit for an
	// ordered one. [NoReconsume]: never.
	MaxReconsumeTimes int32
	// ConsumeTimeout is the time after which the client sends a message back that a concurrent handler still works on. Default: [DefaultConsumeTimeout].
	ConsumeTimeout time.Duration
	// DelayLevels are the broker's, level 1 first (messageDelayLevel). Default: [DefaultDelayLevels].
	DelayLevels []time.Duration
	// StorageTime is how long the broker keeps messages (fileReservedTime). Default: [DefaultStorageTime].
	StorageTime time.Duration
	// SuspendPause is how long an ordered queue pauses after a failure, unless the handler says otherwise. Default: [DefaultSuspendPause]. The client
	// sleeps in whole milliseconds.
	SuspendPause time.Duration
	// InFlightWait is how long an ordered delivery waits inside the listener for a message in flight elsewhere, before it suspends
	// its queue and so spends an attempt. Default: Lease and a tenth, so that a dead owner's claim is outlasted.
	InFlightWait time.Duration
	// ManualCommit stands for consumer.WithAutoCommit(false) and is refused by [New]: with it the client never puts a suspended message back and never
	// commits a success.
	ManualCommit bool
}

// groupPattern is the client's own rule for groups (internal/validators.go), the namespace's separator included.
var groupPattern = regexp.MustCompile(`^[%|a-zA-Z0-9_-]{1,255}$`)

// withDefaults returns a copy of c in which nothing is left to default.
func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.NoRenewal {
		def(&c.Lease, DefaultLeaseUnrenewed)
	} else {
		def(&c.Lease, DefaultLease)
	}
	def(&c.Retention, DefaultRetention)
	def(&c.ConsumeTimeout, DefaultConsumeTimeout)
	def(&c.StorageTime, DefaultStorageTime)
	def(&c.SuspendPause, DefaultSuspendPause)
	def(&c.InFlightWait, c.Lease+c.Lease/10)
	if c.MaxPendingWrites == 0 {
		c.MaxPendingWrites = DefaultMaxPendingWrites
	}
	if c.MaxReconsumeTimes == 0 {
		c.MaxReconsumeTimes = -1
	}
	if c.DelayLevels == nil {
		c.DelayLevels = DefaultDelayLevels()
	} else {
		c.DelayLevels = slices.Clone(c.DelayLevels)
	}
	if c.Observer == nil {
		c.Observer = Log(nil)
	}
	return c
}

// validate returns every problem of c, which has its defaults, and what it should be warned about.
func (c *Config) validate(group string, resolution time.Duration) (warnings []string, err error) {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	if !groupPattern.MatchString(group) {
		bad("the group is %q; RocketMQ wants 1 to 255 letters, digits, '_', '-', '|' or '%%'", group)
	}
	if strings.ContainsAny(c.Namespace, "% ") {
		bad("Namespace is %q; give it without '%%' or blanks", c.Namespace)
	}
	if c.Key == nil {
		bad("Key is nil; choose a key function: MessageID, Keys, Property(name), JSONField(path), or your own")
	}
	sound := true
	c.validateFigures(func(format string, args ...any) {
		sound = false
		bad(format, args...)
	})
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Lease", c.Lease}, {"Retention", c.Retention}} {
		if d.value > 0 && d.value < resolution {
			bad("%s is %v, below the %v that the store can tell apart; make it longer", d.name, d.value, resolution)
		}
	}
	if c.MaxPendingWrites < 0 {
		bad("MaxPendingWrites is %d; it must be above zero (leave it out for its default)", c.MaxPendingWrites)
	}
	if c.ManualCommit {
		bad("ManualCommit: with AutoCommit off the client never puts a suspended message back and never commits a success; leave it on")
	}
	if c.Scope > ScopeGroup {
		bad("Scope is %v; choose ScopeTag, ScopeTopic or ScopeGroup", c.Scope)
	}
	if c.NoKey > NoKeyUnprotected {
		bad("NoKey is %d; choose NoKeyMessageID or NoKeyUnprotected", c.NoKey)
	}
	if c.Outage > Open {
		bad("Outage is %d; choose Closed or Open", c.Outage)
	}
	if sound {
		c.validateBudget(bad, warn)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("rmqdedup: consumer group %q cannot work as configured:\n%w", group, errors.Join(problems...))
	}
	return warnings, nil
}

// validateFigures tells every problem of the settings that a [Budget] is made of.
func (c *Config) validateFigures(bad func(format string, args ...any)) {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Lease", c.Lease}, {"Retention", c.Retention}, {"ConsumeTimeout", c.ConsumeTimeout}, {"StorageTime", c.StorageTime},
		{"SuspendPause", c.SuspendPause}, {"InFlightWait", c.InFlightWait},
	} {
		if d.value <= 0 {
			bad("%s is %v; it must be above zero (leave it out for its default)", d.name, d.value)
		}
	}
	if c.MaxReconsumeTimes < NoReconsume {
		bad("MaxReconsumeTimes is %d; give how often a message may be delivered again, −1 for the client's default, or NoReconsume", c.MaxReconsumeTimes)
	}
	if len(c.DelayLevels) == 0 {
		bad("DelayLevels is empty; give the broker's messageDelayLevel, or nil for its default")
	}
	for i, d := range c.DelayLevels {
		if d <= 0 {
			bad("DelayLevels: level %d is %v; it must be above zero", i+1, d)
		}
	}
	switch c.Mode {
	case Concurrent, Ordered:
	case Broadcasting:
		bad("Mode is Broadcasting: every instance is to run every message, which one shared state table would prevent, and the client drops what fails; leave such a consumer unwrapped, or make it a clustering one")
	default:
		bad("Mode is %v; choose Concurrent or Ordered", c.Mode)
	}
}

// validateBudget compares lease and retention with the time that the retries take.
func (c *Config) validateBudget(bad, warn func(format string, args ...any)) {
	b := c.budget()
	if c.Lease > b.Outlast {
		bad("Lease is %v, longer than the %v that the retries can outlast (%s): a message whose owner died would be dead-lettered before its claim ends; shorten Lease, or raise MaxReconsumeTimes or DelayLevels",
			c.Lease, b.Outlast, b.sum)
	}
	if c.Retention < b.Retries {
		bad("Retention is %v, shorter than the %v over which retries are spread (%s): a finished message could come again after it was forgotten; make Retention longer, best above the broker's storage time of %v",
			c.Retention, b.Retries, b.sum, c.StorageTime)
	} else if c.Retention < c.StorageTime {
		warn("Retention is %v, shorter than the %v for which the broker stores messages (StorageTime): after an offset reset or a long downtime, finished messages run again", c.Retention, c.StorageTime)
	}
	if c.NoRenewal && c.Lease < c.ConsumeTimeout {
		warn("NoRenewal with a Lease of %v: a handler that takes longer may run beside a duplicate (the consume timeout allows it %v)", c.Lease, c.ConsumeTimeout)
	}
}

// fullGroup is the group as the client names it: with its namespace.
func (c *Config) fullGroup(group string) string {
	if c.Namespace == "" {
		return group
	}
	return c.Namespace + "%" + group
}

// ConsumerOptions returns the client's options that say the same as the [Config]: group, namespace, clustering, mode, attempts, consume timeout, AutoCommit. Put
// them first, and yours behind:
//
//	c, err := rocketmq.NewPushConsumer(append(dedup.ConsumerOptions(), consumer.WithNameServer(servers))...)
//
// Options of yours that say otherwise (another model, order, number of attempts or consume timeout, AutoCommit off) void the guarantee:
// the wrapper then works for a consumer that is not there.
func (d *Dedup) ConsumerOptions() []consumer.Option {
	opts := []consumer.Option{
		consumer.WithGroupName(d.group),
		consumer.WithConsumerModel(consumer.Clustering),
		consumer.WithConsumerOrder(d.cfg.Mode == Ordered),
		consumer.WithMaxReconsumeTimes(max(d.cfg.MaxReconsumeTimes, -1)),
		consumer.WithConsumeTimeout(d.cfg.ConsumeTimeout),
		consumer.WithSuspendCurrentQueueTimeMillis(d.cfg.SuspendPause),
		consumer.WithAutoCommit(true),
	}
	if d.cfg.MaxReconsumeTimes == NoReconsume {
		opts = append(opts, consumer.WithMaxReconsumeTimes(0))
	}
	if d.cfg.Namespace != "" {
		opts = append(opts, consumer.WithNamespace(d.cfg.Namespace))
	}
	return opts
}
