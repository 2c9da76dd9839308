package rmqdedup_test

import (
	"slices"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The laws about what the client is told, and what becomes of messages. All are called with the world's mutex held.

// acknowledge: only what was done is acknowledged.
func (w *world) acknowledge(call *listenerCall, msgs []*primitive.MessageExt) {
	for _, msg := range msgs {
		s := w.truth(msg)
		s.acknowledged++
		w.saw("acknowledged")
		switch {
		case s.work.unprotected:
			if r := call.lastRun(msg); r == nil || !r.succeeded {
				w.violate(s.work.name, "%v is acknowledged in %v, and was not run there with success", s, call)
			}
		case s.work.done == 0:
			w.violate(s.work.name, "%v is acknowledged in %v, and no run of it has ever succeeded", s, call)
		}
	}
}

// judgeConcurrentAnswer: the answer is one of two, a retry has a reason, and was not given too early.
func (w *world) judgeConcurrentAnswer(call *listenerCall, result consumer.ConsumeResult) {
	if result == consumer.ConsumeSuccess {
		return // judged where it is acknowledged
	}
	if result != consumer.ConsumeRetryLater {
		w.violate("", "%v is answered %v, which a concurrent consumer does not know", call, result)
	}
	why := w.reasons(call)
	waited := time.Since(call.began)
	switch {
	case why.none():
		w.violate(w.truth(call.msgs[0]).work.name, "%v is answered retry, and there is nothing to retry", call)
	case call.anyLast() && why.unsettled() && waited < w.plan.lastWait():
		w.violate(w.truth(call.msgs[0]).work.name, "%v has a last attempt and an unsettled message, and is answered retry after %v instead of %v", call, waited, w.plan.lastWait())
	case !why.blind && why.away > 0 && why.inFlight+why.cut+why.refused == 0 && waited < w.plan.config.ConsumeTimeout/2:
		w.violate(w.truth(call.msgs[0]).work.name, "%v cannot reach the store, and is answered retry after %v instead of %v", call, waited, w.plan.config.ConsumeTimeout/2)
	}
	w.judgeLevel(call, why)
}

// A tally counts the messages of a delivery by why it may have to come again.
type tally struct {
	refused, cut, inFlight, away int
	left                         time.Duration // the longest until a claim in flight ends
	blind                        bool          // too many writes are pending: what was in flight is not looked at any more
}

func (t tally) unsettled() bool { return t.cut+t.inFlight+t.away > 0 }
func (t tally) none() bool      { return t.refused == 0 && !t.unsettled() }

// reasons are those of a delivery as it stands.
func (w *world) reasons(call *listenerCall) (t tally) {
	n := 0
	for _, writes := range call.m.watch.pending {
		n += writes
	}
	t.blind = w.plan.config.MaxPendingWrites > 0 && n >= w.plan.config.MaxPendingWrites
	for _, msg := range call.msgs {
		x := w.truth(msg).work
		r := call.lastRun(msg)
		f, found := call.found[x]
		switch {
		case r != nil && r.succeeded:
		case call.refused(msg):
			t.refused++
		case found && f.outcome == rmqdedup.Done:
		case found && f.outcome == rmqdedup.InFlight:
			t.inFlight++
			t.left = max(t.left, f.left)
		case r != nil && r.cancelled != nil && !(found && f.err != nil):
			t.cut++
		default:
			t.away++
		}
	}
	return t
}

// judgeLevel: the handler's own delay level is kept if it refused the whole delivery. Otherwise the level outlasts the claim in the way, and is
// not below the broker's own.
func (w *world) judgeLevel(call *listenerCall, why tally) {
	about := w.truth(call.msgs[0]).work.name
	if call.tied() {
		return
	}
	if call.whole() && why.refused == len(call.msgs) {
		if want := call.runs[len(call.runs)-1].level; call.level != want {
			w.violate(about, "%v was refused whole, with delay level %d, and is answered with %d", call, want, call.level)
		}
		return
	}
	if call.level < 0 {
		w.violate(about, "%v is dead-lettered by a delay level of %d, though its handler did not see all of it", call, call.level)
		return
	}
	levels := w.plan.config.DelayLevels
	for _, msg := range call.msgs {
		broker := min(3+int(msg.ReconsumeTimes), len(levels))
		if call.level != 0 && call.level < broker {
			w.violate(about, "%v is answered with delay level %d, below the broker's %d", call, call.level, broker)
		}
	}
	if !why.blind && why.inFlight > 0 && (call.level == 0 || levels[call.level-1] <= why.left && call.level < len(levels)) {
		w.violate(about, "%v is in flight for %v, and is answered with delay level %d, which does not outlast that", call, why.left, call.level)
	}
}

// judgeOrderedAnswer: the answer is one of two; a suspended queue pauses, and has a reason.
func (w *world) judgeOrderedAnswer(call *listenerCall, result consumer.ConsumeResult, pause int) {
	switch {
	case result == consumer.ConsumeSuccess:
	case result != consumer.SuspendCurrentQueueAMoment:
		w.violate(w.truth(call.msgs[0]).work.name, "%v is answered %v: an ordered consumer loses the message", call, result)
	case call.held:
	case pause < 0:
		w.violate("", "%v suspends its queue without a pause: the client spins", call)
	default:
		why := w.reasons(call)
		if why.refused+why.cut+why.inFlight == 0 {
			w.violate(w.truth(call.msgs[0]).work.name, "%v suspends its queue, and nothing was refused or is in flight: %+v", call, why)
		}
	}
}

// judgeDrainedAnswer: once draining has begun, a delivery is only answered by handlers that ended by themselves.
func (w *world) judgeDrainedAnswer(call *listenerCall, r rmqdedup.Result) {
	v := &call.m.watch
	now := time.Now()
	if v.drainedAt.IsZero() || !now.After(v.drainedAt) || r.Held || !v.downAt.IsZero() {
		return
	}
	w.saw("answered while draining")
	if call.mode == rmqdedup.Ordered && w.reasons(call).refused > 0 {
		return // what stands behind it has to wait
	}
	for _, msg := range call.msgs {
		if x := w.truth(msg).work; x.done == 0 && !call.refused(msg) {
			w.violate(x.name, "%v is answered %v by a wrapper that drains, and %s was neither done nor refused", call, resultWord(r.Answer), x.name)
		}
	}
}

// judgeDeadLetter: a message is dead-lettered only if its handler refused it, or for a reason on the contract's list, which is told.
func (w *world) judgeDeadLetter(s *sentMessage, back sendBack) {
	call := back.call
	if call == nil {
		w.saw("dead-lettered: by the cleaner")
		return // judged when it sent it back
	}
	msg := back.message
	why := w.reasons(call)
	switch {
	case call.refused(msg) && (call.last(msg) || call.whole()):
		w.saw("dead-lettered: refused")
	case call.heard(rmqdedup.EventLastAttemptUnsettled, msg):
		w.saw("dead-lettered: unsettled")
	case call.heard(rmqdedup.EventBatchMateDeadLettered, msg) && len(call.msgs) > 1 && !why.none():
		w.saw("dead-lettered: a batch-mate")
	case s.work.done > 0 && !call.last(msg):
		w.violate(s.work.name, "%v is dead-lettered in %v, not at its last attempt", s, call)
	default:
		w.violate(s.work.name, "%v is dead-lettered in %v, for no reason that was told (%+v)", s, call, why)
	}
}

// judgeCleaned: what the client's cleaner sends back, at the last attempt to the dead-letter queue, was being run at the consume timeout, or a
// batch-mate was; it was not just kept waiting. That the cleaner takes a message for such whose start time is that of an earlier
// delivery is its own affair.
func (w *world) judgeCleaned(m *groupMember, msg *primitive.MessageExt) {
	call := m.calls[msg]
	if call == nil {
		w.saw("cleaned: not running")
		return
	}
	if !slices.ContainsFunc(call.runs, func(r *handlerRun) bool {
		return !r.over || !r.endedAt.Before(call.began.Add(w.plan.lastWait()))
	}) {
		s := w.truth(msg)
		w.violate(s.work.name, "%v is sent back by the client's cleaner while the wrapper only waits in %v", s, call)
	}
	w.saw("cleaned: running at the consume timeout")
}

// judgeEvent: what is told is true.
func (w *world) judgeEvent(m *groupMember, call *listenerCall, e rmqdedup.Event) {
	about := ""
	if e.Message != nil {
		about = w.truth(e.Message).work.name
	}
	switch e.Kind {
	case rmqdedup.EventClaimLost:
		w.judgeLostClaim(m, e)
	case rmqdedup.EventLastAttemptUnsettled:
		waited := time.Since(call.began)
		if mate := w.reasons(call).refused > 0 && call.mode == rmqdedup.Ordered; !mate && waited < w.plan.lastWait() {
			w.violate(about, "%v gives its last attempt up after %v; it is to wait for %v", call, waited, w.plan.lastWait())
		}
		if call.refused(e.Message) && !call.tied() || !call.last(e.Message) {
			w.violate(about, "%s tells that %s is unsettled at its last attempt in %v, which it is not", m.name, about, call)
		}
	case rmqdedup.EventUnprotected:
		if !e.Key.IsZero() && w.plan.config.Outage == rmqdedup.Closed {
			w.violate(about, "%s runs %s unprotected under the policy Closed", m.name, about)
		}
	case rmqdedup.EventContradiction:
		if call.queue != nil && !strings.Contains(e.Err.Error(), "delivered again more often") {
			w.violate(about, "%v contradicts nothing, and yet: %v", call, e.Err)
		}
	case rmqdedup.EventAfterClose:
		if !m.down {
			w.violate(about, "%s tells that %v came after it was closed, while its consumer is up", m.name, call)
		}
	}
}

// judgeShutdown: it keeps to its time, and no write is left without a word.
func (w *world) judgeShutdown(m *groupMember, began time.Time, allowed time.Duration, err error) {
	if m.crashed() {
		return
	}
	if took := time.Since(began); took > allowed+5*w.plan.limit+time.Second {
		w.violate("", "the shutdown of %s took %v, and was given %v", m.name, took, allowed)
	}
	for write := range m.watch.pending {
		w.violate(nameOf(w.workOf[write.key]), "%s has been shut down (%v), and its %v of %s neither landed nor was it reported as dropped", m.name, err, write.op, nameOf(w.workOf[write.key]))
	}
}

// checkFates: at the end every message was acknowledged or dead-lettered, every work done or dead-lettered whole, and what was done is DONE.
func (w *world) checkFates() {
	if w.broken() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.works {
		for _, s := range x.messages {
			if s.acknowledged == 0 && s.dead == 0 {
				w.violate(x.name, "%v was lost: neither acknowledged nor dead-lettered", s)
			}
		}
		switch {
		case x.refusals < 0 && x.done > 0:
			w.violate(x.name, "%s was done, though its handler always refuses", x.name)
		case x.key == nil || x.done == 0:
		default:
			if row := w.ledger.row(x.key.Digest()); !row.everDone && !row.dropped && x.acknowledged() {
				w.violate(x.name, "%s was acknowledged, and the store was never told that it is DONE", x.name)
			}
		}
	}
}

func (x *work) acknowledged() bool {
	for _, s := range x.messages {
		if s.acknowledged > 0 {
			return true
		}
	}
	return false
}
