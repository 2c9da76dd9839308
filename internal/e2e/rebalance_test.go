package e2e

import (
	"fmt"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A second member joins while the first one's handlers run, and takes over half of the queues with the messages in them. It hands them back; the
// client throws the first one's successes away, but DONE is written, and nothing runs again.
func TestMemberJoinsWhileHandlersRun(t *testing.T) {
	play(t, setting{queues: 4}, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)))
		for i := range 8 {
			s.send(fmt.Sprintf("order-%d", i), inQueue(i%4))
		}
		s.await(started, "", 8)
		s.join("b", s.does(succeed))
		moved := []string{"order-2", "order-3", "order-6", "order-7"}
		for _, name := range moved {
			s.await(sentBack, name)
		}
		close(gate)
		for _, name := range moved {
			s.await(rmqdedup.EventSuppressed, name)
		}
		s.want(8, started, "")
	})
}

// A member leaves while its handler runs. Its shutdown waits for the handler, and whoever gets its queues has nothing to do again.
func TestMemberLeavesWhileItsHandlerRuns(t *testing.T) {
	play(t, setting{queues: 2}, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(succeed))
		b := s.join("b", s.does(hold(gate)))
		s.settle("a", "b")
		s.send("order-1", inQueue(1))
		s.await(started, "order-1")
		ended := b.beginShutdown(s.ctx)
		close(gate)
		s.must(<-ended)
		s.settle("a", "a")
		s.want(1, started, "order-1")
	})
}

// An ordered queue moves to a member that joins while its handler runs. The broker lets go of the old owner's lock only after a minute; the
// client throws the old owner's success away, but DONE is written, and the new owner goes on behind it, in order.
func TestOrderedMemberJoins(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, queues: 2, needs: []ability{canMoveOrderedQueues}}, func(s *story) {
		gate := make(chan struct{})
		b := s.join("b", s.only(special{"busy": s.does(hold(gate))}, s.does(succeed)))
		s.sendAll("before", "busy", "next", "last")
		s.await(started, "busy")
		s.join("a", s.does(succeed)) // whose name stands before the other's: it is to have the first queue
		s.must(b.awaitCached(s.ctx, 0))
		close(gate)
		s.await(acknowledged, "last")
		s.want(1, rmqdedup.EventSuppressed, "busy")
		s.wantOrder(started, "before", "busy", "next", "last")
	})
}

// The same when the old owner is killed.
func TestOrderedMemberIsKilled(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, needs: []ability{canMoveOrderedQueues}}, func(s *story) {
		victim := s.spawn("a")
		s.settle("a")
		s.join("b", s.does(succeed)) // it has no queue to begin with
		s.sendAll("before", "fatal-order", "next", "last")
		s.await(started, "fatal-order")
		s.await(acknowledged, "before")
		victim.kill()
		s.await(acknowledged, "last")
		s.takenOver("fatal-order", 1)
		s.wantOrder(started, "before", "fatal-order", "fatal-order", "next", "last")
	})
}
