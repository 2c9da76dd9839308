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
	w.queued = true
	l := &c.lanes[w.op]
	at := len(*l)
	if at > 0 && (*l)[at-1].arrived > w.arrived { // it was the first, and has looked whether others come
		at = 0
	}
	*l = slices.Insert(*l, at, w)
	c.waiting++
	if c.room() && !c.gathering { // those that gather have their slot, or the window has grown
		c.drive()
	}
}

// A batch is what goes out together, a part for each operation.
type batch struct {
	parts [rmqdedup.OpForget + 1]part
	seen  map[digest]struct{} // the keys of all of them
}

// A part has the calls of one operation.
type part struct {
	members []*waiter
	reqs    []rmqdedup.Request // of all members, one after the other
}

// fill takes calls that wait, as many as fit and have no key in common: those of all operations if these can go together, and otherwise
// of that whose first call has waited longest. The mutex is held. It returns false if none waits.
func (c *Coalescer) fill(b *batch) bool {
	if c.waiting == 0 {
		return false
	}
	for op := range b.parts {
		p := &b.parts[op]
		p.members, p.reqs = p.members[:0], p.reqs[:0]
	}
	clear(b.seen)
	var first *waiter
	for op, l := range c.lanes {
		switch {
		case len(l) == 0:
		case c.config.DoAll != nil:
			c.take(b, rmqdedup.Op(op))
		case first == nil || l[0].arrived < first.arrived:
			first = l[0]
		}
	}
	if first != nil {
		c.take(b, first.op)
	}
	return true
}

// take takes those of one lane.
func (c *Coalescer) take(b *batch, op rmqdedup.Op) {
	p, all := &b.parts[op], c.lanes[op]
	left := all[:0]
	for i, w := range all {
		if len(p.reqs)+len(w.reqs) > MaxKeys {
			left = append(left, all[i:]...) // in order: a large call is not passed by small ones for ever
			break
		}
		if !b.add(p, w) {
			left = append(left, w)
		}
	}
	left = p.trim(c.config.Size, left)
	clear(all[len(left):])
	c.lanes[op] = left
	c.waiting -= len(p.members)
}

// trim puts the last members back among those that are left, which are in the order of their arrival, if the part is better without them.
func (p *part) trim(size func(int) int, left lane) lane {
	if size == nil {
		return left
	}
	best, back := size(len(p.reqs)), len(left)
	for len(p.reqs) > best && len(p.members) > 1 {
		last := len(p.members) - 1
		w := p.members[last]
		p.members[last] = nil
		p.members, p.reqs = p.members[:last], p.reqs[:len(p.reqs)-len(w.reqs)]
		w.queued = true
		left = append(left, w)
	}
	if back < len(left) {
		slices.SortFunc(left, func(a, b *waiter) int { return cmp.Compare(a.arrived, b.arrived) })
	}
	return left
}

// add makes w a member of a part, unless it has a key that is there already. A call that has one twice itself is so served by the store.
func (b *batch) add(p *part, w *waiter) bool {
	for i := range w.reqs {
		if _, there := b.seen[w.reqs[i].Key.Digest()]; there {
			return false
		}
	}
	for i := range w.reqs {
		b.seen[w.reqs[i].Key.Digest()] = struct{}{}
	}
	w.queued = false
	p.members = append(p.members, w)
	p.reqs = append(p.reqs, w.reqs...)
	return true
}
