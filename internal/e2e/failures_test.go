package e2e

import (
	"testing"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// A handler that fails twice gets the message three times, and a duplicate afterwards not at all.
func TestHandlerFailsTwiceThenSucceeds(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.join("a", s.does(fail, fail, succeed))
		s.send("order-1")
		s.await(acknowledged, "order-1")
		for i, e := range s.journal.all(started, "order-1") {
			if int(e.attempt) != i {
				s.Errorf("run %d is attempt %d", i, e.attempt)
			}
		}
		s.send("order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(3, started, "order-1")
	})
}

// Case 18: a panic is a failure; the message comes again, and the queue's other messages and its offset go on.
func TestPanic(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.expect(rmqdedup.EventPanic)
		s.join("a", s.only(special{"bad": s.does(panics, succeed)}, s.does(succeed)))
		s.send("before")
		s.send("bad")
		s.send("after")
		s.await(acknowledged, "bad")
		s.want(1, panicked, "bad")
	})
}

// Case 8 and 15: an operator frees a key whose handler runs. The handler's context is cancelled, its failure leaves the key to whoever claims it
// next, and the message runs again.
func TestOperatorFreesARunningKey(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.expect(rmqdedup.EventClaimLost)
		s.join("a", s.does(hold(nil), succeed))
		s.send("order-1")
		s.await(started, "order-1")
		s.free("order-1")
		s.await(rmqdedup.EventClaimLost, "order-1")
		s.await(failed, "order-1")
		s.await(acknowledged, "order-1")
		s.takenOver("order-1", 1)
		s.want(2, started, "order-1")
	})
}

// The same with a handler that does not heed its context: its success counts, late as it is.
func TestSuccessAfterALostClaim(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.expect(rmqdedup.EventClaimLost)
		gate := make(chan struct{})
		s.join("a", s.does(deaf(gate)))
		s.send("order-1")
		s.await(started, "order-1")
		s.free("order-1")
		s.await(rmqdedup.EventClaimLost, "order-1")
		close(gate)
		s.await(acknowledged, "order-1")
		s.send("order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Case 21: the broker takes neither the failed message nor a copy of it, and the client calls the listener again by itself, with the same
// message. That runs, since the failure has freed the key.
func TestSendBackIsRefused(t *testing.T) {
	play(t, setting{}, func(s *story) {
		r := s.broker.road(s)
		gate := make(chan struct{})
		s.join("a", s.does(then(hold(gate), fail), succeed), by(r))
		s.send("order-1")
		s.await(started, "order-1")
		letIn := r.refuse(-1, rmqtest.SendBack, rmqtest.Send)
		close(gate)
		s.await(acknowledged, "order-1")
		letIn()
		s.want(2, started, "order-1")
		again, err := s.broker.stored(s.ctx, s.retryTopic())
		if s.must(err); again != 0 {
			s.Errorf("the broker has taken %d messages back", again)
		}
	})
}
