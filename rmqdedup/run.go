package rmqdedup

import (
	"context"
	"errors"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

// run hands what is held, or is to run without a claim, among the members up to (not including) index to, to the handler in one call and in order,
// and settles it. It starts nothing when draining has begun. Members whose claims were lost meanwhile are made fresh instead,
// and then nothing is run: they are to be acquired again first.
func (x *delivery) run(to int) {
	c := x.collect(to)
	if len(c.members) == 0 {
		return
	}
	ctx, cancel := context.WithCancelCause(x.ctx)
	c.Context, c.cancel = ctx, cancel
	defer cancel(nil)
	if !x.attach(c) {
		return
	}
	if !x.d.drain.start(c) {
		return // the caller sees the drain, and gives back what is held
	}
	x.whole = len(c.msgs) == len(x.msgs)
	x.result.Ran += len(c.msgs)
	x.tellUnprotected(c.members)
	var err error
	ok := false // and so it stays if the handler ends its goroutine (runtime.Goexit): its claims must not be renewed for ever
	defer func() {
		why := c.cancelledByUs()
		if err != nil && (ok || why == nil) { // else it is our doing, and told as such
			x.handlerErr = err
		}
		if !ok {
			x.result.Failed += len(c.msgs)
		}
		x.settle(c, ok, why)
		x.drained = x.drained || errors.Is(why, ErrDraining)
		x.d.drain.stop(c)
	}()
	var answer consumer.ConsumeResult
	answer, err = x.call(c)
	ok = x.succeeded(answer, err)
}

// collect gathers what is to be run.
func (x *delivery) collect(to int) *call {
	c := &x.oneCall
	if c.cancel != nil {
		c = &call{} // an earlier call has that one, and perhaps still uses its context
	}
	c.members, c.msgs = c.oneMember[:0], c.oneMsg[:0]
	for i := range to {
		if m := &x.members[i]; m.state == held || m.state == bare {
			c.members = append(c.members, m)
			c.msgs = append(c.msgs, m.msg)
		}
	}
	return c
}

// attach ties the claims to the call that is about to start.
func (x *delivery) attach(c *call) bool {
	ok := true
	for _, m := range c.members {
		if m.state != held || x.d.keeper.attach(&m.claim, c) {
			continue
		}
		ok = false
		x.d.keeper.remove(&m.claim)
		m.state = fresh
		if m.restarts++; m.restarts > maxRestarts {
			m.restarts = 0
			m.unknown = true
			x.notAnswered(m, ErrLeasePassed)
		}
	}
	if !ok {
		for _, m := range c.members {
			if m.state == held {
				x.d.keeper.settling(&m.claim, false) // untie it
			}
		}
	}
	return ok
}

// tellUnprotected tells of the members of a call that is about to start without a claim.
func (x *delivery) tellUnprotected(members []*member) {
	for _, m := range members {
		if m.state == bare {
			x.result.Unprotected++
			x.event(Event{Kind: EventUnprotected, Key: m.req.Key, Message: m.msg, Err: m.err})
		}
	}
}

// call calls the handler and turns a panic into a failure.
func (x *delivery) call(c *call) (answer consumer.ConsumeResult, err error) {
	defer c.end()
	defer func() {
		if p := recover(); p != nil {
			caught := newPanicError(p)
			x.event(Event{Kind: EventPanic, Message: c.members[0].msg, Err: caught})
			answer, err = consumer.ConsumeRetryLater, caught
		}
	}()
	return x.handle(c, c.msgs...)
}

// succeeded says whether an answer of the handler is success: in concurrent mode only ConsumeSuccess, in ordered mode Commit too.
func (x *delivery) succeeded(answer consumer.ConsumeResult, err error) bool {
	ok := answer == consumer.ConsumeSuccess || (x.mode == Ordered && answer == consumer.Commit)
	if ok && err != nil {
		x.tell(EventSuccessWithError, nil, err)
	}
	return ok
}

// settle completes or releases what a call had, each key by its own state.
func (x *delivery) settle(c *call, ok bool, cancelled error) {
	settled := x.pick[:0] // what an acquire wanted has been seen to
	for _, m := range c.members {
		if m.req.Key.IsZero() {
			m.state = outcome(ok, cancelled)
			continue
		}
		if m.state == held {
			x.d.keeper.settling(&m.claim, true)
		}
		settled = append(settled, m)
	}
	if len(settled) == 0 {
		return
	}
	if ok {
		x.complete(settled)
		return
	}
	released := settled[:0]
	for _, m := range settled {
		if m.state == bare {
			m.state = outcome(false, cancelled)
			x.abandonUnknown(m)
			continue
		}
		m.state = outcome(false, cancelled)
		x.d.keeper.remove(&m.claim)
		released = append(released, m)
	}
	x.end(OpRelease, released)
}

func outcome(ok bool, cancelled error) memberState {
	switch {
	case ok:
		return finished
	case cancelled != nil:
		return cut
	default:
		return refused
	}
}

// complete writes DONE. What cannot be written is tried again in the background: the work is done, and running it again
// would be the duplicate.
func (x *delivery) complete(of []*member) {
	answers, err := x.d.do(x.lasting(), OpComplete, x.requests(of))
	for i, m := range of {
		a := Answer{Err: err}
		if err == nil {
			a = answers[i]
		}
		claimed := m.state == held
		m.state, m.unknown = finished, false
		x.result.Suppressed += x.shares(m) - 1
		if a.Err != nil {
			w := &write{op: OpComplete, req: *m.req}
			if claimed {
				x.d.keeper.settling(&m.claim, false)
				w.claim = &m.claim
			}
			x.d.pending.add(w, a.Err)
			continue
		}
		if !claimed {
			continue // without a claim there is none to lose
		}
		if lost := x.d.keeper.remove(&m.claim); lost {
			continue // told when it was
		}
		if a.Outcome == Lost {
			x.event(Event{Kind: EventClaimLost, Key: m.req.Key, Message: m.msg, Owner: m.req.Owner, Err: ErrTakenAway})
		}
	}
}
