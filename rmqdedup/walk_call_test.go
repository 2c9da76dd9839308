package rmqdedup_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A listenerCall is one call of a member's listener by its client, and what was seen of it from outside: the
// laws judge its answer by that.
type listenerCall struct {
	m       *groupMember
	queue   *clientQueue            // nil: an operator's "consume directly"
	given   []*primitive.MessageExt // the client's own slice, from which it acknowledges afterwards
	msgs    []*primitive.MessageExt // what was in it
	mode    rmqdedup.Mode
	began   time.Time
	ended   bool
	held    bool // the answer is to be thrown away
	level   int  // the delay level when the listener had returned
	attempt []int32

	runs  []*handlerRun                                         // in order
	found map[*work]finding                                     // what the last acquire found
	told  map[rmqdedup.EventKind]map[*primitive.MessageExt]bool // events about a message

	// What it holds: claims that it was granted and has not begun to settle. It must hold none while it waits.
	holds     map[rmqdedup.Owner]*work
	busy      int       // operations of the store and runs of the handler that are under way
	idleSince time.Time // since when it is not busy
}

// A finding is what an acquire answered for a key.
type finding struct {
	outcome rmqdedup.Outcome
	left    time.Duration
	err     error
}

type callContextKey struct{}

// callOf is the call that a context of the wrapper belongs to; nil for what it does in the background.
func callOf(ctx context.Context) *listenerCall {
	call, _ := ctx.Value(callContextKey{}).(*listenerCall)
	return call
}

// enter notes that the listener is about to be called. The world's mutex is held.
func (m *groupMember) enter(q *clientQueue, msgs []*primitive.MessageExt) *listenerCall {
	call := &listenerCall{
		m: m, queue: q, given: msgs, msgs: slices.Clone(msgs), mode: m.w.plan.config.Mode, began: time.Now(),
		found: make(map[*work]finding), told: make(map[rmqdedup.EventKind]map[*primitive.MessageExt]bool), holds: make(map[rmqdedup.Owner]*work),
	}
	for _, msg := range msgs {
		m.calls[msg] = call
		call.attempt = append(call.attempt, msg.ReconsumeTimes)
	}
	call.idleSince = call.began
	m.w.note("%s delivers %v", m.name, call)
	return call
}

// listenTo calls the listener.
func (m *groupMember) listenTo(ctx context.Context, call *listenerCall) consumer.ConsumeResult {
	defer func() {
		if p := recover(); p != nil {
			m.w.violate("", "the wrapper panicked: %v", p)
		}
	}()
	result, _ := m.listen(ctx, call.given...)
	return result
}

// leaveCall notes that the listener has returned. The world's mutex is held.
func (m *groupMember) leaveCall(call *listenerCall) {
	call.ended = true
	call.idle()
	for _, msg := range call.msgs {
		if m.calls[msg] == call {
			delete(m.calls, msg)
		}
	}
}

// begin and finish enclose an operation of the store or a run of the handler. The time between is time in which the call only
// waits. The world's mutex is held.
func (c *listenerCall) begin() {
	c.idle()
	c.busy++
}

func (c *listenerCall) finish() {
	if c.busy--; c.busy == 0 {
		c.idleSince = time.Now()
	}
}

// idle judges the time since the call was last busy, if it was idle at all.
func (c *listenerCall) idle() {
	waited := time.Since(c.idleSince)
	if c.busy > 0 || waited == 0 || len(c.holds) == 0 || c.m.crashed() {
		return
	}
	for owner, work := range c.holds {
		if !c.m.w.claims[owner].validUntil.After(c.idleSince) {
			continue // it had given that one up
		}
		c.m.w.violate(work.name, "%v waited for %v and held an unsettled claim on %s all the while", c, waited, work.name)
	}
}

// refused says whether the handler refused a message by itself in the last run that it was part of.
func (c *listenerCall) refused(msg *primitive.MessageExt) bool {
	r := c.lastRun(msg)
	return r != nil && r.over && !r.succeeded && r.cancelled == nil
}

// tied says whether a run of the call was cancelled at the moment at which it ended.
func (c *listenerCall) tied() bool { return slices.ContainsFunc(c.runs, (*handlerRun).tied) }

// lastRun is the last run of the message's key in this call.
func (c *listenerCall) lastRun(msg *primitive.MessageExt) (last *handlerRun) {
	work := c.m.w.truth(msg).work
	for _, r := range c.runs {
		if r.of(work) {
			last = r
		}
	}
	return last
}

// whole says whether every message was in the call's last run.
func (c *listenerCall) whole() bool {
	return len(c.runs) > 0 && len(c.runs[len(c.runs)-1].msgs) == len(c.msgs)
}

func (c *listenerCall) last(msg *primitive.MessageExt) bool {
	n := c.m.w.plan.retries()
	switch {
	case c.mode == rmqdedup.Ordered && n < 0:
		return false
	case c.mode == rmqdedup.Ordered:
		return msg.ReconsumeTimes > n
	case n < 0:
		return msg.ReconsumeTimes >= 16
	default:
		return msg.ReconsumeTimes >= n
	}
}

func (c *listenerCall) anyLast() bool {
	return slices.ContainsFunc(c.msgs, c.last)
}

func (c *listenerCall) heard(kind rmqdedup.EventKind, msg *primitive.MessageExt) bool {
	return c.told[kind][msg]
}

func (c *listenerCall) String() string {
	var b strings.Builder
	for i, msg := range c.msgs {
		fmt.Fprintf(&b, " %v@%d(%d)", c.m.w.truth(msg), msg.QueueOffset, c.attempt[i])
	}
	return "[" + b.String()[1:] + "]"
}

// truth is which message a copy is.
func (w *world) truth(msg *primitive.MessageExt) *sentMessage {
	var n int
	_, _ = fmt.Sscan(msg.GetProperty(truthProperty), &n)
	return w.sent[n]
}
