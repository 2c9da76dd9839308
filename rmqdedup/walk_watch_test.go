package rmqdedup_test

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A memberWatch is what can be known of one wrapper from outside: what it was told by the store, and what it told its observer.
type memberWatch struct {
	claims    map[rmqdedup.Owner]*claimView
	pending   map[pendingWrite]int
	sentCalls map[string]int

	drainedAt  time.Time // when it was told to shut down
	drainUntil time.Time // and how long it has for that
	downAt     time.Time // when its consumer was
}

// A claimView is one claim as its owner may know it.
type claimView struct {
	m          *groupMember
	call       *listenerCall
	work       *work
	granted    bool
	takenOver  bool
	validUntil time.Time // by the owner's own clock, from before the last request that succeeded was sent
	lapsed     bool      // that time has passed at least once
	toldLost   time.Time // by the store
	ran        bool      // a run with it has ended
	troubled   time.Time // when an acquire or renewal of it last did not go through as it should
}

// excused says whether its owner may have lost it: a renewal of the last lease did not go through, or there are none.
func (c *claimView) excused() bool {
	return c.m.w.plan.config.NoRenewal || !c.toldLost.IsZero() || !c.troubled.Before(c.validUntil.Add(-c.m.lease))
}

// healthy says whether the owner has to take the claim for its own.
func (c *claimView) healthy() bool { return c.toldLost.IsZero() && time.Now().Before(c.validUntil) }

type pendingWrite struct {
	op    rmqdedup.Op
	owner rmqdedup.Owner
	key   [32]byte
}

func (v *memberWatch) init() {
	v.claims = make(map[rmqdedup.Owner]*claimView)
	v.pending = make(map[pendingWrite]int)
	v.sentCalls = make(map[string]int)
}

// send sees a call of the store on its way out. The world's mutex is held.
func (v *memberWatch) send(m *groupMember, call *listenerCall, op rmqdedup.Op, reqs []rmqdedup.Request) {
	if call != nil {
		call.begin()
	}
	for i := range reqs {
		q := &reqs[i]
		switch {
		case op == rmqdedup.OpAcquire:
			v.identify(m, call, q)
		case op != rmqdedup.OpRenew && call != nil:
			delete(call.holds, q.Owner) // it begins to settle it
		}
	}
}

// identify ties a key to a work and an owner to a claim, each once and for all.
func (v *memberWatch) identify(m *groupMember, call *listenerCall, q *rmqdedup.Request) {
	w, x := m.w, call.workOf(q)
	if x == nil {
		w.violate("", "%s claims the key %v for %v, which belongs to none of its messages", m.name, q.Key, call)
		return
	}
	if x.key == nil {
		key := q.Key // the request is its caller's
		x.key = &key
	}
	if other := w.workOf[q.Key.Digest()]; other != nil && other != x || x.key.Digest() != q.Key.Digest() {
		w.violate(x.name, "%s has the key %v in %v, and had %v before", x.name, q.Key, call, x.key)
	}
	w.workOf[q.Key.Digest()] = x
	c := v.claims[q.Owner]
	if c == nil {
		c = &claimView{m: m, call: call, work: x}
		v.claims[q.Owner] = c
		w.claims[q.Owner] = c
	}
	if c.work != x || c.call != call || q.Owner.IsZero() {
		w.violate(x.name, "%s claims %s in %v with the owner %v, which is not its own", m.name, x.name, call, q.Owner)
	}
}

// cameTooLate says whether a work was claimed for the call, and the claim had passed when that was known.
func (c *listenerCall) cameTooLate(x *work) bool {
	for _, view := range c.m.watch.claims {
		if view.call == c && view.work == x && view.granted && !view.healthy() {
			return true
		}
	}
	return false
}

// workOf is the work that a request of the call is about.
func (c *listenerCall) workOf(q *rmqdedup.Request) *work {
	for _, msg := range c.msgs {
		x := c.m.w.truth(msg).work
		if !x.byMessageID && q.Key.Kind == rmqdedup.BusinessKey && q.Key.Value == x.name {
			return x
		}
		if x.byMessageID && q.Key.Kind == rmqdedup.MessageIDKey && q.MessageID == stableIDOf(msg) {
			return x
		}
	}
	return nil
}

// stableIDOf is the message's ID as far as it survives: UNIQ_KEY, then ORIGIN_MESSAGE_ID, then the offset ID.
func stableIDOf(msg *primitive.MessageExt) string {
	for _, p := range []string{primitive.PropertyUniqueClientMessageIdKeyIndex, primitive.PropertyOriginMessageId} {
		if id := msg.GetProperty(p); id != "" {
			return id
		}
	}
	return msg.OffsetMsgId
}

// receive sees what the wrapper is told. The world's mutex is held.
func (v *memberWatch) receive(m *groupMember, call *listenerCall, op rmqdedup.Op, reqs []rmqdedup.Request, answers []rmqdedup.Answer, err error, sent time.Time, clean bool) {
	if err != nil {
		m.w.note("    %s: %v of %v: %v", m.name, op, m.w.keyNames(reqs), err)
	}
	for i := range reqs {
		a := rmqdedup.Answer{Err: err}
		if err == nil {
			a = answers[i]
		}
		if c := v.claims[reqs[i].Owner]; c != nil && !clean && (op == rmqdedup.OpAcquire || op == rmqdedup.OpRenew) {
			c.troubled = time.Now()
		}
		switch op {
		case rmqdedup.OpAcquire:
			v.acquired(call, &reqs[i], a, sent)
		case rmqdedup.OpRenew:
			v.renewed(&reqs[i], a, sent)
		}
	}
	if call != nil {
		call.finish()
	}
}

func (v *memberWatch) acquired(call *listenerCall, q *rmqdedup.Request, a rmqdedup.Answer, sent time.Time) {
	c := v.claims[q.Owner]
	if c == nil {
		return // judged already
	}
	call.found[c.work] = finding{a.Outcome, a.Left, a.Err}
	switch {
	case a.Outcome == rmqdedup.Claimed || a.Outcome == rmqdedup.TakenOver:
		c.granted, c.takenOver, c.toldLost = true, a.Outcome == rmqdedup.TakenOver, time.Time{}
		c.extend(sent)
		call.holds[q.Owner] = c.work
	case a.Err == nil:
		delete(call.holds, q.Owner)
	}
}

func (v *memberWatch) renewed(q *rmqdedup.Request, a rmqdedup.Answer, sent time.Time) {
	c := v.claims[q.Owner]
	switch {
	case c == nil:
	case a.Outcome == rmqdedup.Applied:
		c.extend(sent)
	case a.Outcome == rmqdedup.Lost:
		c.toldLost = time.Now()
	}
}

func (c *claimView) extend(sent time.Time) {
	c.lapsed = c.lapsed || !c.validUntil.IsZero() && !time.Now().Before(c.validUntil)
	c.validUntil = sent.Add(c.m.lease)
}

// A memberObserver hears what a wrapper tells.
type memberObserver struct{ m *groupMember }

func (o *memberObserver) Begin(ctx context.Context, _ rmqdedup.Delivery) context.Context { return ctx }

func (o *memberObserver) End(ctx context.Context, _ rmqdedup.Delivery, r rmqdedup.Result) {
	o.m.w.locked(func() {
		call := callOf(ctx)
		call.held = r.Held
		o.m.w.note("%s answers %v for %v, held %v, after %v", o.m.name, resultWord(r.Answer), call, r.Held, r.Elapsed)
		if r.Held {
			o.m.w.saw("answer held until the consumer was shut down")
		}
		if !o.m.crashed() {
			o.m.w.judgeDrainedAnswer(call, r)
		}
	})
}

func (o *memberObserver) Event(ctx context.Context, e rmqdedup.Event) {
	o.m.w.locked(func() {
		if o.m.crashed() {
			return // a process that is no more tells nothing
		}
		o.hear(callOf(ctx), e)
	})
}

// hear keeps an event and judges it. The world's mutex is held.
func (o *memberObserver) hear(call *listenerCall, e rmqdedup.Event) {
	w, v := o.m.w, &o.m.watch
	w.saw("event: " + e.Kind.String())
	w.note("    %s tells: %v%s", o.m.name, e.Kind, about(w, e))
	if call != nil && e.Message != nil {
		if call.told[e.Kind] == nil {
			call.told[e.Kind] = make(map[*primitive.MessageExt]bool)
		}
		call.told[e.Kind][e.Message] = true
	}
	write := pendingWrite{e.Op, e.Owner, e.Key.Digest()}
	switch e.Kind {
	case rmqdedup.EventWritePending:
		v.pending[write]++
	case rmqdedup.EventWriteLanded, rmqdedup.EventWriteDropped:
		if v.pending[write]--; v.pending[write] <= 0 {
			delete(v.pending, write)
		}
		if e.Kind == rmqdedup.EventWriteDropped && e.Op == rmqdedup.OpComplete {
			w.ledger.row(write.key).dropped = true
		}
	default:
		w.judgeEvent(o.m, call, e)
	}
}

// about is what a line of the diary says of an event.
func about(w *world, e rmqdedup.Event) string {
	s := ""
	if x := w.workOf[e.Key.Digest()]; x != nil {
		s += ", of " + x.name
	}
	if e.Op != 0 {
		s += ", " + e.Op.String()
	}
	if e.Err != nil && e.Kind != rmqdedup.EventPanic {
		s += ": " + e.Err.Error()
	}
	return s
}

func resultWord(r consumer.ConsumeResult) string {
	switch r {
	case consumer.ConsumeSuccess:
		return "success"
	case consumer.ConsumeRetryLater:
		return "retry"
	case consumer.SuspendCurrentQueueAMoment:
		return "suspend"
	}
	return fmt.Sprintf("result %d", r)
}
