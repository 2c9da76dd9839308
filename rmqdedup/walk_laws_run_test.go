package rmqdedup_test

import (
	"errors"
	"slices"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The laws about what may run, and when. All are called with the world's mutex held.

// judgeRun is called when a run begins.
func (w *world) judgeRun(r *handlerRun) {
	m, call := r.call.m, r.call
	if d := m.watch.drainedAt; !d.IsZero() && time.Now().After(d) {
		w.violate(r.works[0].name, "%s starts %v %v after it began to drain", m.name, names(r.works), time.Since(d))
	}
	if len(r.claims) != len(r.msgs) {
		w.violate(r.works[0].name, "%v was run with %d claims for %d messages", call, len(r.claims), len(r.msgs))
		return
	}
	for i, x := range r.works {
		if !x.unprotected && slices.Contains(r.works[:i], x) {
			w.violate(x.name, "%s is twice in one run of %v", x.name, call)
		}
		if !slices.Contains(call.msgs, r.msgs[i]) {
			w.violate(x.name, "%s was run with a message that is none of %v", x.name, call)
		}
		w.judgeClaim(r, x, r.claims[i])
		w.judgeOverlap(r, x, r.claims[i])
		w.judgeUnwritten(r, x)
	}
	w.judgeOrder(r)
}

// judgeClaim: a run has a healthy claim of its own on every key, given to it while the key was not DONE. The exceptions are messages without a
// key, and an outage under the policy Open.
func (w *world) judgeClaim(r *handlerRun, x *work, c rmqdedup.Claim) {
	if c.Owner.IsZero() {
		switch {
		case x.unprotected:
			w.saw("run without a key")
		case w.plan.config.Outage == rmqdedup.Open && (r.call.found[x].err != nil || r.call.cameTooLate(x)):
			w.saw("run unprotected in an outage")
		default:
			w.violate(x.name, "%s is run without a claim (policy %d; the store said: %v)", x.name, w.plan.config.Outage, r.call.found[x].err)
		}
		return
	}
	view := w.claims[c.Owner]
	if view == nil || view.work != x || view.call != r.call || !view.granted {
		w.violate(x.name, "%s is run with the owner %v, to whom the store never gave it", x.name, c.Owner)
		return
	}
	if !view.healthy() {
		w.violate(x.name, "%s is run on a claim that was lost before: valid until %v, told lost at %v", x.name, w.clock(view.validUntil), w.clock(view.toldLost))
	}
	if c.Takeover != view.takenOver || c.Attempt != int(r.msgs[slices.Index(r.works, x)].ReconsumeTimes) {
		w.violate(x.name, "the handler is told of the claim %+v, but whether it was taken over is %v", c, view.takenOver)
	}
	if row := w.ledger.row(c.Key.Digest()); row.everDone && w.ledger.given[c.Owner] > row.doneBy && time.Now().Before(row.doneUntil) {
		w.violate(x.name, "%s is run again, though the store took its DONE at %v, for %v", x.name, w.clock(row.doneAt), w.plan.config.Retention)
	}
}

// judgeOverlap: while one run of a key has a healthy claim, no other begins.
func (w *world) judgeOverlap(r *handlerRun, x *work, c rmqdedup.Claim) {
	if x.unprotected {
		return
	}
	for other := range w.active {
		if !other.of(x) {
			continue
		}
		theirs := other.claims[slices.Index(other.works, x)].Owner
		switch {
		case c.Owner.IsZero() || theirs.IsZero():
			w.saw("overlap with an unprotected run") // judged where that one began
		case w.claims[theirs].healthy():
			w.violate(x.name, "%s is run by %s for %v while %s still runs it for %v, whose claim is healthy until %v",
				x.name, r.call.m.name, r.call, other.call.m.name, other.call, w.clock(w.claims[theirs].validUntil))
		default:
			w.saw("overlap after a claim was lost")
		}
	}
}

// judgeUnwritten: while a member tries to write a DONE, it keeps its claim, so that the work is not run again.
func (w *world) judgeUnwritten(r *handlerRun, x *work) {
	for _, m := range w.members {
		for write := range m.watch.pending {
			if c := w.claims[write.owner]; write.op == rmqdedup.OpComplete && c != nil && c.work == x && c.granted && !m.crashed() && !c.healthy() && !c.excused() {
				w.violate(x.name, "%s is run again by %s, while %s tries to write its DONE and has not renewed its claim", x.name, r.call.m.name, m.name)
			}
		}
	}
}

// judgeOrder: in an ordered queue nothing begins before all that stands before it is settled: done, or dead-lettered.
func (w *world) judgeOrder(r *handlerRun) {
	if r.call.mode != rmqdedup.Ordered || r.call.queue == nil {
		return
	}
	for i := 1; i < len(r.msgs); i++ {
		if r.msgs[i].QueueOffset <= r.msgs[i-1].QueueOffset {
			w.violate(r.works[i].name, "%v is run out of order: offset %d before %d", r.call, r.msgs[i-1].QueueOffset, r.msgs[i].QueueOffset)
		}
	}
	last := r.msgs[len(r.msgs)-1].QueueOffset
	for _, s := range w.sent {
		if s.queue != r.call.queue.id.QueueId || !s.stored || s.offset >= last || s.dead > 0 || s.work.done > 0 || r.of(s.work) {
			continue
		}
		w.violate(s.work.name, "%s runs offset %d of queue %d before %v at offset %d, which was neither done nor dead-lettered", r.call.m.name, last, s.queue, s, s.offset)
	}
}

// judgeEndOfRun: a run whose claim was lost had its context cancelled, and none had it cancelled for nothing.
func (w *world) judgeEndOfRun(r *handlerRun) {
	const moment = time.Millisecond
	lost := false
	for i, c := range r.claims {
		if c.Owner.IsZero() {
			continue
		}
		view, x := w.claims[c.Owner], r.works[i]
		view.ran = true
		lost = lost || view.lapsed || !view.healthy()
		since := view.validUntil
		if t := view.toldLost; !t.IsZero() && t.Before(since) {
			since = t
		}
		if r.cancelled == nil && time.Since(since) > moment {
			w.violate(x.name, "%s went on for %v after the claim on %s was lost, and was not cancelled", r.call.m.name, time.Since(since), x.name)
		}
	}
	m := r.call.m
	var cause *rmqdedup.LostClaimError
	switch {
	case r.cancelled == nil:
	case errors.As(r.cancelled, &cause):
		w.saw("run cancelled: claim lost")
		if !lost || !slices.ContainsFunc(cause.Keys, func(k rmqdedup.Key) bool { return r.of(w.workOf[k.Digest()]) }) {
			w.violate(r.works[0].name, "%v was cancelled without having lost a claim: %v", r.call, r.cancelled)
		}
	case errors.Is(r.cancelled, rmqdedup.ErrDraining):
		w.saw("run cancelled: draining")
		if d := m.watch.drainUntil; d.IsZero() || time.Now().Before(d) {
			w.violate(r.works[0].name, "%v was cancelled by a shutdown that has time until %v", r.call, w.clock(d))
		}
	default:
		w.violate(r.works[0].name, "%v was cancelled, and nobody can say why: %v", r.call, r.cancelled)
	}
}

// judgeCompletion: DONE is written only of what was done.
func (w *world) judgeCompletion(q *rmqdedup.Request) {
	if x := w.workOf[q.Key.Digest()]; x == nil || x.done == 0 {
		w.violate(nameOf(x), "the table is told that %v is DONE, and no run has succeeded", q.Key)
	}
}

// judgeRelease: what is released was claimed with a known answer, and is not worked on; what was taken over is released only by the
// handler's own failure, else the next one would not see that somebody died over it.
func (w *world) judgeRelease(q *rmqdedup.Request) {
	view := w.claims[q.Owner]
	w.saw("released")
	switch {
	case view == nil || !view.granted:
		w.violate(nameOf(w.workOf[q.Key.Digest()]), "a claim on %v is released that was acquired without a known answer: it may have been a takeover", q.Key)
	case view.takenOver && !view.ran:
		w.violate(view.work.name, "a claim on %s is released that was taken over and never run", view.work.name)
	default:
		w.judgeGivenUp(q, "released")
	}
}

// judgeAbandon: what is abandoned is not worked on.
func (w *world) judgeAbandon(q *rmqdedup.Request) {
	w.saw("abandoned")
	w.judgeGivenUp(q, "abandoned")
}

func (w *world) judgeGivenUp(q *rmqdedup.Request, how string) {
	for r := range w.active {
		for i, c := range r.claims {
			if c.Owner == q.Owner {
				w.violate(r.works[i].name, "the claim on %s is %s while %s runs it", r.works[i].name, how, r.call.m.name)
			}
		}
	}
}

// judgeLostClaim: a claim is lost only when a renewal was in trouble for a lease, or the store says that it is gone.
func (w *world) judgeLostClaim(m *groupMember, e rmqdedup.Event) {
	view := w.claims[e.Owner]
	switch {
	case view == nil:
		w.violate("", "%s tells that it lost a claim on %v that it never had", m.name, e.Key)
	case errors.Is(e.Err, rmqdedup.ErrTakenAway):
		if !w.ledger.lost[e.Owner] {
			w.violate(view.work.name, "%s tells that its claim on %s was taken away, and the store never said so", m.name, view.work.name)
		}
	case view.healthy():
		w.violate(view.work.name, "%s gives up a claim on %s that is valid until %v", m.name, view.work.name, w.clock(view.validUntil))
	case !view.excused():
		w.violate(view.work.name, "%s lost its claim on %s, though the store answered every renewal in time", m.name, view.work.name)
	}
}

func (w *world) clock(t time.Time) float64 { return t.Sub(w.start).Seconds() }

func nameOf(x *work) string {
	if x == nil {
		return ""
	}
	return x.name
}
