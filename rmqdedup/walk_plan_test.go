package rmqdedup_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A walkPlan is what one seed decides: what the group, its consumers and the broker are like, and how bad the weather gets.
type walkPlan struct {
	seed uint64

	config   rmqdedup.Config // of every member, but for its lease
	leases   []time.Duration // a member has one of them: a rolling deployment has two
	grace    time.Duration   // added to every claim, as a checker's would be
	limit    time.Duration   // the store's own time limit
	byOrder  bool            // the key is the order's number, not the message ID
	queues   int             // of the topic
	members  int             // at the start
	batch    int             // messages a call of the listener, at most
	pull     int             // messages a pull, at most
	slots    int             // calls of the listener at a time, a member and topic
	lockLife time.Duration   // of an ordered queue's lock in the broker
	storm    time.Duration   // how long things go wrong

	// What may happen in the storm. Half of the walks have a little of everything; the others much of a few things, which then meet each other
	// more often.
	badStore, badBroker, badMembers, badHandlers bool
	spells                                       []spellKind
	incidents                                    []memberIncident
	copies                                       []int   // messages a work
	produced                                     float64 // in this part of the storm all messages are sent
}

// roll returns dice for one decision. They are thrown by the seed and by what the decision is about alone, so that it
// comes out the same in whatever order goroutines run.
func (p *walkPlan) roll(about ...any) dice {
	h := fnv.New64a()
	fmt.Fprintln(h, about...)
	return dice{rand.New(rand.NewPCG(p.seed, h.Sum64()))}
}

type dice struct{ *rand.Rand }

func (d dice) chance(p float64) bool { return d.Float64() < p }

// upTo returns a number from 1 to n.
func (d dice) upTo(n int) int { return 1 + d.IntN(n) }

// span returns a time between two, in whole milliseconds, so that things often happen at the same moment.
func (d dice) span(from, to time.Duration) time.Duration {
	return from + time.Duration(d.Int64N(int64((to-from)/time.Millisecond)+1))*time.Millisecond
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// some returns all of a list, or only one or two that are in it.
func some[T any](d dice, of ...T) []T {
	if d.chance(0.5) {
		return of
	}
	return []T{pick(d, of...), pick(d, of...)}
}

func newPlan(seed uint64) *walkPlan {
	p := &walkPlan{seed: seed}
	r := p.roll("plan")
	p.batch = pick(r, 1, 1, 2, 2, 3, 5)
	p.pull = r.upTo(6)
	p.slots = r.upTo(4)
	p.queues = r.upTo(3)
	p.members = r.upTo(3)
	p.lockLife = r.span(5*time.Second, time.Minute)
	p.storm = r.span(20*time.Second, 6*time.Minute)
	p.byOrder = r.chance(0.8)
	p.badStore, p.badBroker, p.badMembers, p.badHandlers = r.chance(0.6), r.chance(0.4), r.chance(0.7), r.chance(0.8)
	p.spells = some(r, storeAway, storeAway, storeFlaky, storeFlaky, storeSlow, storeFull, keyAway)
	p.incidents = some(r, crashes, crashes, leaves, leaves, joins, flaps, replays, replays, consumesDirectly)
	p.copies = some(r, 1, 1, 1, 2, 2, 3)
	p.produced = pick(r, 0.05, 0.3, 0.8)
	p.planConfig(r)
	return p
}

func (p *walkPlan) planConfig(r dice) {
	c := &p.config
	c.Mode = pick(r, rmqdedup.Concurrent, rmqdedup.Ordered)
	c.Key = rmqdedup.MessageID
	if p.byOrder {
		c.Key = rmqdedup.Property(orderProperty)
	}
	c.Scope = pick(r, rmqdedup.ScopeTag, rmqdedup.ScopeTopic, rmqdedup.ScopeGroup)
	c.NoKey = pick(r, rmqdedup.NoKeyMessageID, rmqdedup.NoKeyUnprotected)
	c.Outage = pick(r, rmqdedup.Closed, rmqdedup.Closed, rmqdedup.Open)
	c.ConsumeTimeout = r.span(time.Minute, 150*time.Second)
	p.limit = c.ConsumeTimeout / 50
	c.DelayLevels = seconds(1, 2, 4, 8, 12, 20, 30, 45)
	c.MaxReconsumeTimes = pick[int32](r, rmqdedup.NoReconsume, 1, 1, 2, 3, 5, -1)
	c.StorageTime = 30 * time.Minute
	c.SuspendPause = r.span(10*time.Millisecond, 2*time.Second)
	lease := r.span(time.Second, 20*time.Second)
	if r.chance(0.2) {
		lease = r.span(p.limit/3, 2*p.limit) // a reply may come when it has passed
	}
	c.NoRenewal = r.chance(0.1)
	p.leases = []time.Duration{lease}
	if r.chance(0.2) {
		p.leases = append(p.leases, lease/2)
	}
	if r.chance(0.7) {
		p.grace = r.span(time.Second, 2*time.Minute)
	}
	if r.chance(0.3) {
		c.InFlightWait = r.span(100*time.Millisecond, lease)
	}
	c.Retention = 24 * time.Hour
	if r.chance(0.2) {
		c.Retention = c.StorageTime // above the span of the retries in any of these configurations
	}
	if r.chance(0.4) {
		c.MaxPendingWrites = r.upTo(3)
	}
}

func seconds(s ...int) []time.Duration {
	d := make([]time.Duration, len(s))
	for i := range s {
		d[i] = time.Duration(s[i]) * time.Second
	}
	return d
}

// retries is the number that the client is told, −1 for its default.
func (p *walkPlan) retries() int32 {
	if p.config.MaxReconsumeTimes == rmqdedup.NoReconsume {
		return 0
	}
	return p.config.MaxReconsumeTimes
}

// lastWait is how long a last attempt is to wait at least: the consume timeout less the margin of a fifteenth.
func (p *walkPlan) lastWait() time.Duration {
	return p.config.ConsumeTimeout - p.config.ConsumeTimeout/15
}

func (p *walkPlan) String() string {
	c := p.config
	return fmt.Sprintf("%v, %d members, %d queues, batches of %d, %d slots; leases %v, grace %v, renewal %v, retention %v, outage policy %d, no key %d, by order %v, pending %d; "+
		"retries %d, consume timeout %v, in-flight wait %v, lock life %v; storm of %v: store %v %v, broker %v, members %v %v, handlers %v",
		c.Mode, p.members, p.queues, p.batch, p.slots, p.leases, p.grace, !c.NoRenewal, c.Retention, c.Outage, c.NoKey, p.byOrder, c.MaxPendingWrites,
		p.retries(), c.ConsumeTimeout, c.InFlightWait, p.lockLife, p.storm, p.badStore, p.spells, p.badBroker, p.badMembers, p.incidents, p.badHandlers)
}
