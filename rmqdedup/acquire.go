package rmqdedup

import (
	"fmt"
	"time"
)

// maxRestarts bounds how often a claim is acquired anew in a row because its lease passed before the handler could start.
const maxRestarts = 3

// acquire claims the unsettled among the members from index from up to (not including) index to, in one call of the store.
func (x *delivery) acquire(from, to int) {
	x.pick = x.onePick[:0]
	if cap(x.pick) < to-from {
		x.pick = make([]*member, 0, to-from)
	}
	for i := from; i < to; i++ {
		m := &x.members[i]
		if !m.state.unsettled() {
			continue
		}
		if m.req.Key.IsZero() { // cut short by a batch-mate's lost claim: it needs none itself
			m.state = bare
			continue
		}
		x.pick = append(x.pick, m)
	}
	if len(x.pick) == 0 {
		return
	}
	if x.d.cfg.Outage == Closed && !x.d.cfg.Shadow && x.d.pending.full() {
		for _, m := range x.pick {
			x.notAnswered(m, ErrPendingFull)
		}
		return
	}
	for _, m := range x.pick {
		if m.req.Owner.IsZero() {
			m.req.Owner = NewOwner()
		}
	}
	sent := time.Now()
	answers, err := x.d.do(x.ctx, OpAcquire, x.requests(x.pick))
	if err != nil {
		x.tellStoreError(x.pick[0], err)
	}
	for i, m := range x.pick {
		a := Answer{Err: err}
		if err == nil {
			if a = answers[i]; a.Err != nil {
				x.tellStoreError(m, a.Err)
			}
		}
		x.take(m, a, sent)
	}
}

// tellStoreError tells that an acquire failed. Once a delivery is enough: it polls.
func (x *delivery) tellStoreError(m *member, err error) {
	if !x.storeErrorTold {
		x.storeErrorTold = true
		x.event(Event{Kind: EventStoreError, Op: OpAcquire, Message: m.msg, Key: m.req.Key, Err: err})
	}
}

// requests returns the requests of some members in one slice.
func (x *delivery) requests(of []*member) []Request {
	if len(of) == len(x.members) {
		return x.reqs
	}
	x.scratch = x.scratch[:0]
	for _, m := range of {
		x.scratch = append(x.scratch, *m.req)
	}
	return x.scratch
}

// take notes what an acquire found.
func (x *delivery) take(m *member, a Answer, sent time.Time) {
	if a.Err != nil {
		m.unknown = true
		x.notAnswered(m, a.Err)
		return
	}
	m.unknown, m.err, m.left = false, nil, 0
	switch a.Outcome {
	case Claimed, TakenOver:
		m.state, m.takenOver = held, a.Outcome == TakenOver
		x.d.keeper.add(&m.claim, sent)
		if m.takenOver {
			x.result.TakenOver++
			x.found(EventTakenOver, m, a)
		}
	case InFlight:
		m.state, m.left = inFlight, a.Left
		if m.told != EventInFlight {
			x.result.InFlight++
		}
		x.found(EventInFlight, m, a)
		m.req.Owner = Owner{}
	case Done:
		m.state = finished
		x.result.Suppressed += x.shares(m)
		x.found(EventSuppressed, m, a)
	default:
		m.unknown = true
		x.notAnswered(m, fmt.Errorf("rmqdedup: the store %T answered an acquire with %q", x.d.store, a.Outcome))
	}
}

// shares is how many messages of the delivery go by m's key.
func (x *delivery) shares(m *member) int {
	if len(x.members) == len(x.msgs) {
		return 1
	}
	n := 0
	for _, i := range x.of {
		if &x.members[i] == m {
			n++
		}
	}
	return n
}

func (x *delivery) found(kind EventKind, m *member, a Answer) {
	if m.told == kind {
		return // polling: once is enough
	}
	m.told = kind
	e := Event{Kind: kind, Key: m.req.Key, Message: m.msg, Record: a.Record, Left: a.Left}
	if kind == EventTakenOver {
		e.Owner = m.req.Owner
	}
	x.event(e)
	if a.Record != nil && a.Record.Fingerprint != m.req.Fingerprint {
		e.Kind = EventBodyDiffers
		x.event(e)
	}
}

// notAnswered notes that it is not known whether m is claimed, and what follows from that.
func (x *delivery) notAnswered(m *member, err error) {
	m.err = err
	if m.state != unreachable {
		x.result.Unreachable++
	}
	m.state = unreachable
	if x.ctx.Err() != nil && !x.d.cfg.Shadow {
		return // the caller has given up; that is no outage
	}
	if x.d.cfg.Outage == Open || x.d.cfg.Shadow {
		m.state = bare
	}
}

// giveBack returns the claims of the members from an index on whose handler was not run, and ends acquires whose answer is not known.
func (x *delivery) giveBack(from int) {
	var released, abandoned []*member
	for i := from; i < len(x.members); i++ {
		m := &x.members[i]
		x.abandonUnknown(m)
		switch {
		case m.state == bare && !m.req.Key.IsZero():
			m.state = fresh // when its turn comes, the store may be back
		case m.state != held:
		case m.takenOver:
			abandoned = append(abandoned, m) // whoever comes next must see that an owner died over it
		default:
			released = append(released, m)
		}
		if m.state == held {
			x.d.keeper.remove(&m.claim)
			m.state = fresh
		}
	}
	x.end(OpRelease, released)
	x.end(OpAbandon, abandoned)
}

// abandonUnknown ends an acquire that is given up on without a known answer: it may have taken over an orphan, so it is
// never released. The store has just failed to answer, so this is left to the background.
func (x *delivery) abandonUnknown(m *member) {
	if !m.unknown {
		return
	}
	m.unknown = false
	if !m.req.Owner.IsZero() {
		x.d.pending.add(&write{op: OpAbandon, req: *m.req}, m.err)
	}
	m.req.Owner = Owner{}
}

// end releases or abandons claims, which get a new owner should they be acquired again: if this one is to be tried again in
// the background, it must not meet them.
func (x *delivery) end(op Op, of []*member) {
	if len(of) == 0 {
		return
	}
	answers, err := x.d.do(x.lasting(), op, x.requests(of))
	for i, m := range of {
		e := err
		if err == nil {
			e = answers[i].Err
		}
		if e != nil {
			x.d.pending.add(&write{op: op, req: *m.req}, e)
		}
		m.req.Owner = Owner{}
	}
}
