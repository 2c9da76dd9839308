package e2e

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// outage are the events of one.
func (s *story) outage(more ...rmqdedup.EventKind) {
	s.expect(rmqdedup.EventStoreError)
	s.expect(more...)
}

// someSeconds is how often the store is asked in vain in that time, with growing pauses between.
const someSeconds = 6

// While the store is away nothing runs under the policy Closed. The delivery is held in the listener, and runs when the store is back, without having
// cost the message an attempt.
func TestOutageUnderClosed(t *testing.T) {
	play(t, setting{store: fragile, claims: true}, func(s *story) {
		s.outage(rmqdedup.EventHeld)
		s.join("a", s.does(succeed))
		s.line.cut()
		s.send("order-1")
		s.await(rmqdedup.EventHeld, "order-1")
		s.await(unanswered, "order-1", someSeconds)
		s.want(0, started, "order-1")
		s.line.mend()
		s.await(acknowledged, "order-1")
		s.want(0, sentBack, "order-1")
	})
}

// The same with a server that takes what is sent and does not answer: what it did meanwhile is not known.
func TestOutageWithoutAnswersUnderClosed(t *testing.T) {
	play(t, setting{store: fragile, claims: true}, func(s *story) {
		s.outage(rmqdedup.EventHeld)
		s.join("a", s.does(succeed))
		s.line.freeze()
		s.send("order-1")
		s.await(rmqdedup.EventHeld, "order-1")
		s.line.mend()
		s.await(acknowledged, "order-1")
		s.send("order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Under the policy Open the handler runs without a claim. When the store is back DONE is written, and stops what comes then.
func TestOutageUnderOpen(t *testing.T) {
	play(t, setting{store: fragile, claims: true}, func(s *story) {
		s.outage(rmqdedup.EventUnprotected, rmqdedup.EventWritePending, rmqdedup.EventWriteLanded)
		s.join("a", s.does(succeed), func(r *role) { r.Outage = rmqdedup.Open })
		s.line.cut()
		s.send("order-1")
		s.await(rmqdedup.EventUnprotected, "order-1")
		s.await(acknowledged, "order-1")
		s.line.mend()
		s.await(rmqdedup.EventWriteLanded, "order-1")
		s.send("order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// The store goes away while the handler runs, for less than a lease: its success is acknowledged, and DONE written when the store is back. A
// duplicate that comes meanwhile does not run.
func TestOutageAtCompletion(t *testing.T) {
	play(t, setting{store: fragile, claims: true}, func(s *story) {
		s.outage(rmqdedup.EventHeld, rmqdedup.EventWritePending, rmqdedup.EventWriteLanded)
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)), func(r *role) { r.Lease = 8 * time.Second })
		s.send("order-1")
		s.await(started, "order-1")
		s.line.cut()
		close(gate)
		s.await(acknowledged, "order-1")
		s.send("order-1")
		s.await(rmqdedup.EventHeld, "order-1")
		s.line.mend()
		s.await(rmqdedup.EventWriteLanded, "order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// DONE alone cannot be written, for longer than a lease: the claim is renewed as long as it is pending, so that a duplicate finds it in flight.
func TestCompletionThatCannotBeWritten(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.outage(rmqdedup.EventWritePending, rmqdedup.EventWriteLanded)
		var broken atomic.Bool
		broken.Store(true)
		s.join("a", s.does(succeed), func(r *role) {
			r.store = rmqdedup.Intercept(r.store, func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
				if op == rmqdedup.OpComplete && broken.Load() {
					return nil, errors.New("broken as the story has it")
				}
				return rmqdedup.Do(ctx, next, op, reqs)
			})
		})
		s.send("order-1")
		s.await(acknowledged, "order-1")
		s.send("order-1")
		s.await(sentBack, "order-1")
		s.await(renewed, "order-1", 4)
		broken.Store(false)
		s.await(rmqdedup.EventWriteLanded, "order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}
