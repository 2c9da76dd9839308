package rmqdedup

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// A member is one piece of work of a delivery: a message and its key, and all messages of the delivery with the same key.
type member struct {
	claim // its req is set from the start, the rest while it is held
	msg   *primitive.MessageExt
	state memberState

	takenOver bool
	unknown   bool          // an acquire is out whose answer is not known: it may have claimed the key
	left      time.Duration // in flight: until the holder's deadline
	err       error         // unreachable: why
	restarts  int           // claims lost before the handler was started
	told      EventKind     // the last event of an acquire, so that polling does not repeat it
}

type memberState uint8

const (
	fresh       memberState = iota // to be acquired
	held                           // claimed, its handler not started yet
	bare                           // to be run without a claim
	inFlight                       // claimed by another owner
	unreachable                    // the store did not answer
	finished                       // done before, or run with success: acknowledged
	refused                        // its handler failed
	cut                            // its handler failed, but only after we had cancelled it
)

// unsettled says whether a member in that state has to be acquired (again).
func (s memberState) unsettled() bool {
	return s == fresh || s == inFlight || s == unreachable || s == cut
}

// A delivery is one call of the listener. It is worked on by one goroutine.
type delivery struct {
	d      *Dedup
	ctx    context.Context
	handle Handler
	mode   Mode
	conc   *primitive.ConsumeConcurrentlyContext // nil for other modes
	ord    *primitive.ConsumeOrderlyContext
	start  time.Time

	msgs    []*primitive.MessageExt // a copy: the client acknowledges from its own slice
	members []member                // in the order of their first messages
	of      []int                   // the member of each message
	attempt []int32                 // ReconsumeTimes of each message, before a handler could change it
	reqs    []Request               // the members' requests
	last    bool                    // a message is at its last attempt

	result     Result
	handlerErr error
	whole      bool // every message was in one call of the handler
	drained    bool // a handler was cancelled by the drain: its answer is held
	told       map[EventKind]bool

	storeErrorTold bool

	// Room for the usual delivery, of one message.
	oneMsg    [1]*primitive.MessageExt
	oneMember [1]member
	oneOf     [1]int
	oneTry    [1]int32
	oneReq    [1]Request
	scratch   []Request
	pick      []*member
	onePick   [1]*member
	oneCall   call
}

func (d *Dedup) deliver(ctx context.Context, handle Handler, msgs []*primitive.MessageExt) (consumer.ConsumeResult, error) {
	d.drain.enter()
	defer d.drain.leave()
	x := &delivery{d: d, handle: handle, mode: d.cfg.Mode, start: time.Now()}
	x.msgs = append(x.oneMsg[:0], msgs...)
	if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
		x.conc, x.mode = c, Concurrent
	} else if o, ok := primitive.GetOrderlyCtx(ctx); ok {
		x.ord, x.mode = o, Ordered
	}
	about := Delivery{Group: d.fullGroup, Mode: x.mode, Messages: x.msgs}
	x.ctx = d.cfg.Observer.Begin(ctx, about)
	x.checkContradictions()
	answer, err := x.serve()
	x.result.Answer, x.result.Err, x.result.Elapsed = answer, err, time.Since(x.start)
	d.cfg.Observer.End(x.ctx, about, x.result)
	return answer, err
}

func (x *delivery) serve() (consumer.ConsumeResult, error) {
	switch {
	case x.d.drain.over():
		x.tell(EventAfterClose, nil, nil)
		x.spareAttempt()
		return x.retryResult(), nil
	case x.d.drain.started():
		return x.letGo()
	}
	x.identify()
	switch {
	case x.d.cfg.Shadow:
		return x.shadow()
	case x.mode == Ordered:
		return x.ordered()
	default:
		return x.concurrent()
	}
}

// identify computes the keys, once for the delivery, and finds the messages that share one.
func (x *delivery) identify() {
	n := len(x.msgs)
	x.members, x.of, x.reqs, x.attempt = x.oneMember[:0], x.oneOf[:0], x.oneReq[:0], x.oneTry[:0]
	var seen map[[32]byte]int
	if n > 1 {
		x.members, x.of, x.reqs = make([]member, 0, n), make([]int, 0, n), make([]Request, 0, n)
		seen = make(map[[32]byte]int, n)
	}
	for _, m := range x.msgs {
		key, keyed, err := x.d.key(x.ctx, m)
		if err != nil {
			x.event(Event{Kind: EventNoKey, Key: key, Message: m, Err: err})
		}
		req := Request{
			Key: key, Lease: x.d.cfg.Lease, Retention: x.d.cfg.Retention,
			MessageID: stableID(m), Attempt: int(m.ReconsumeTimes), Fingerprint: Fingerprint(m.Body),
		}
		if i, again := seen[key.digest]; again && keyed {
			x.of = append(x.of, i)
			x.event(Event{Kind: EventRepeated, Key: key, Message: m})
			if x.reqs[i].Fingerprint != req.Fingerprint {
				x.event(Event{Kind: EventBodyDiffers, Key: key, Message: m, Record: &Record{
					Key: key, MessageID: x.reqs[i].MessageID, Attempt: x.reqs[i].Attempt, Fingerprint: x.reqs[i].Fingerprint,
				}})
			}
			continue
		}
		x.of = append(x.of, len(x.members))
		if seen != nil && keyed {
			seen[key.digest] = len(x.members)
		}
		x.reqs = append(x.reqs, req)
		x.members = append(x.members, member{msg: m})
		if !keyed {
			mem := &x.members[len(x.members)-1]
			mem.state, mem.err = bare, err
		}
	}
	for i := range x.members {
		x.members[i].req = &x.reqs[i]
	}
	for _, m := range x.msgs {
		x.attempt = append(x.attempt, m.ReconsumeTimes)
		x.last = x.last || x.d.cfg.isLast(x.mode, m.ReconsumeTimes)
	}
}

// checkContradictions compares the delivery with what the Config says of the consumer.
func (x *delivery) checkContradictions() {
	contradiction := func(format string, args ...any) {
		x.event(Event{Kind: EventContradiction, Message: x.msgs[0], Err: fmt.Errorf(format, args...)})
	}
	if x.mode != x.d.cfg.Mode {
		contradiction("the consumer calls in %v mode, but Config.Mode is %v: make it with ConsumerOptions (an admin's \"consume directly\" does this too, and is fine); the delivery is answered as a %v one", x.mode, x.d.cfg.Mode, x.mode)
	}
	if c, ok := primitive.GetConsumerCtx(x.ctx); ok && c.ConsumerGroup != "" && c.ConsumerGroup != x.d.fullGroup {
		contradiction("the consumer is of group %q, but the wrapper was made for %q: make it with ConsumerOptions", c.ConsumerGroup, x.d.fullGroup)
	}
	most := int64(x.d.cfg.retries(x.mode))
	if x.mode == Ordered {
		most++ // the client counts one more than it is told
	}
	for _, m := range x.msgs {
		if int64(m.ReconsumeTimes) > most {
			contradiction("a message was delivered again more often than Config.MaxReconsumeTimes (%d) allows: make the consumer with ConsumerOptions (the client does this too when it cannot send a message back)", x.d.cfg.MaxReconsumeTimes)
			break
		}
	}
}

// retryResult is the answer that makes the client deliver again, in the delivery's mode.
func (x *delivery) retryResult() consumer.ConsumeResult {
	if x.mode == Ordered {
		if x.ord != nil && x.ord.SuspendCurrentQueueTimeMillis < 0 {
			// Left as it is, the client does not pause at all.
			x.ord.SuspendCurrentQueueTimeMillis = int(max(x.d.cfg.SuspendPause.Milliseconds(), 1))
		}
		return consumer.SuspendCurrentQueueAMoment
	}
	return consumer.ConsumeRetryLater
}

// retry is the answer when a member's handler failed or a member is left unsettled.
func (x *delivery) retry() (consumer.ConsumeResult, error) {
	var busy, spared bool
	var longest time.Duration
	for i := range x.members {
		m := &x.members[i]
		switch m.state {
		case inFlight:
			busy, longest = true, max(longest, m.left)
		case cut:
			// Whoever has the claim now took it a moment ago.
			busy, longest = true, max(longest, m.req.Lease)
		case unreachable, fresh:
			spared = true
		}
		if m.state.unsettled() {
			x.abandonUnknown(m)
		}
	}
	if x.conc != nil && (busy || spared || !x.whole) {
		// The handler's own level stands only for what it saw whole. 0 lets the broker choose by each message's attempts.
		x.conc.DelayLevelWhenNextConsume = 0
		if busy {
			level := x.d.cfg.outlastLevel(longest)
			for _, attempt := range x.attempt {
				level = max(level, x.d.cfg.brokerLevel(attempt))
			}
			x.conc.DelayLevelWhenNextConsume = level
		}
	}
	if x.last {
		x.tellDeadLettered()
	}
	return x.retryResult(), x.handlerErr
}

// tellDeadLettered tells of the messages that this retry sends to the dead-letter queue though their handler did not refuse them.
func (x *delivery) tellDeadLettered() {
	for i, msg := range x.msgs {
		if !x.d.cfg.isLast(x.mode, x.attempt[i]) {
			continue
		}
		m := &x.members[x.of[i]]
		switch {
		case m.state == refused:
		case m.state == finished || m.state == fresh || m.state == bare: // done, or behind a failure in an ordered queue
			x.event(Event{Kind: EventBatchMateDeadLettered, Key: m.req.Key, Message: msg})
		default:
			x.event(Event{Kind: EventLastAttemptUnsettled, Key: m.req.Key, Message: msg, Err: m.err, Left: m.left})
		}
	}
}

// event passes e on with what belongs to every event of a delivery.
func (x *delivery) event(e Event) { x.d.event(x.ctx, e) }

// tell passes on an event of which one a delivery is enough.
func (x *delivery) tell(kind EventKind, m *member, err error) {
	if x.told[kind] {
		return
	}
	if x.told == nil {
		x.told = make(map[EventKind]bool)
	}
	x.told[kind] = true
	e := Event{Kind: kind, Message: x.msgs[0], Err: err}
	if m != nil {
		e.Key, e.Message = m.req.Key, m.msg
	}
	x.event(e)
}

// lasting is the delivery's context without its cancellation: what is settled is settled, whoever has given up waiting.
func (x *delivery) lasting() context.Context {
	if x.ctx.Done() == nil {
		return x.ctx
	}
	return context.WithoutCancel(x.ctx)
}

// pause waits for d, but not beyond until. It says no when until has come, draining begins or the caller gives up.
func (x *delivery) pause(d time.Duration, until time.Time) bool {
	if rest := time.Until(until); rest < d {
		d = rest
	}
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.d.drain.begun:
		return false
	case <-x.ctx.Done():
		return false
	}
}

// letGo holds a delivery that must not be answered any more, until the consumer has been shut down: the client then throws the answer away.
func (x *delivery) letGo() (consumer.ConsumeResult, error) {
	x.giveBack(0)
	x.d.drain.hold(x.ctx, x.start)
	x.result.Held = true
	x.spareAttempt()
	return x.retryResult(), nil
}

// spareAttempt undoes the attempt that the client counts for an ordered message whose queue is suspended: it does so, and dead-letters on the last,
// before it sees that the queue is dropped. (It may be well past the last, if it could not reach the dead-letter queue before.)
func (x *delivery) spareAttempt() {
	if x.mode != Ordered {
		return
	}
	for _, m := range x.msgs {
		m.ReconsumeTimes = min(m.ReconsumeTimes-1, x.d.cfg.retries(Ordered))
	}
}
