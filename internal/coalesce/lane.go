package coalesce

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

type digest = [sha256.Size]byte

// A lane has the calls that wait for one operation, in the order in which they came.
type lane []*waiter

func (l *lane) remove(w *waiter) {
	*l = slices.DeleteFunc(*l, func(other *waiter) bool { return other == w })
	w.queued = false
}

// enqueue has w wait, and sees to it that it will not be for nothing. The mutex is held.
func (c *Coalescer) enqueue(w *waiter) {
	c.arrived++
	w.arrived, w.queued = c.arrived, true
	c.lanes[w.op] = append(c.lanes[w.op], w)
	c.waiting++
	if c.room() { // the window has grown
		c.drive()
	}
}

// A batch is what goes out as one call.
type batch struct {
	op      rmqdedup.Op
	members []*waiter
	reqs    []rmqdedup.Request // of all members, one after the other

	seen map[digest]struct{}
}

// fill takes calls out of the lane whose first has waited longest, as many as fit and have no key in common. The mutex is held. It
// returns false if none waits.
func (c *Coalescer) fill(b *batch) bool {
	if c.waiting == 0 {
		return false
	}
	var first *waiter
	for _, l := range c.lanes {
		if len(l) > 0 && (first == nil || l[0].arrived < first.arrived) {
			first = l[0]
		}
	}
	b.op, b.members, b.reqs = first.op, b.members[:0], b.reqs[:0]
	clear(b.seen)
	all := c.lanes[b.op]
	left := all[:0]
	for i, w := range all {
		if len(b.reqs)+len(w.reqs) > MaxKeys {
			left = append(left, all[i:]...) // in order: a large call is not passed by small ones for ever
			break
		}
		if !b.add(w) {
			left = append(left, w)
		}
	}
	left = b.trim(c.config.Size, left)
	clear(all[len(left):])
	c.lanes[b.op] = left
	c.waiting -= len(b.members)
	return true
}

// trim puts the last members back among those that are left, which are in the order of their arrival, if the batch is better without them.
func (b *batch) trim(size func(int) int, left lane) lane {
	if size == nil {
		return left
	}
	best, back := size(len(b.reqs)), len(left)
	for len(b.reqs) > best && len(b.members) > 1 {
		last := len(b.members) - 1
		w := b.members[last]
		b.members[last] = nil
		b.members, b.reqs = b.members[:last], b.reqs[:len(b.reqs)-len(w.reqs)]
		w.queued = true
		left = append(left, w)
	}
	if back < len(left) {
		slices.SortFunc(left, func(a, b *waiter) int { return cmp.Compare(a.arrived, b.arrived) })
	}
	return left
}

// add makes w a member, unless it has a key that is there already. A call that has one twice itself is so served by the store.
func (b *batch) add(w *waiter) bool {
	for i := range w.reqs {
		if _, there := b.seen[w.reqs[i].Key.Digest()]; there {
			return false
		}
	}
	for i := range w.reqs {
		b.seen[w.reqs[i].Key.Digest()] = struct{}{}
	}
	w.queued = false
	b.members = append(b.members, w)
	b.reqs = append(b.reqs, w.reqs...)
	return true
}
