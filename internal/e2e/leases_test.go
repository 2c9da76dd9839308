package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A handler three times as long as its lease never overlaps a duplicate, since its claim is renewed.
func TestHandlerOutlivesItsLease(t *testing.T) {
	play(t, setting{queues: 2, claims: true}, func(s *story) {
		const lease = 2 * time.Second
		brief := func(r *role) { r.Lease = lease }
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)), brief)
		s.join("b", s.does(hold(gate)), brief)
		s.settle("a", "b")
		s.send("order-1", inQueue(0))
		s.await(started, "order-1")
		s.send("order-1", inQueue(0))
		s.send("order-1", inQueue(1))
		s.await(renewed, "order-1", 9) // one each third of the lease
		s.want(1, started, "order-1")
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1", 2)
		s.want(1, started, "order-1")
		begun, ended := s.journal.all(started, "order-1")[0].at, s.journal.all(succeeded, "order-1")[0].at
		if ended-begun < 5*lease/2 {
			s.Errorf("the handler took %v, which proves little with a lease of %v", ended-begun, lease)
		}
	})
}

// A handler that still runs at the consume timeout has its message sent back by the client's own sweep. The copy finds it in flight, and then done.
func TestUnracedHandlerOutlivesTheConsumeTimeout(t *testing.T) {
	play(t, setting{racy: "its sweep of late messages (which reads a cache without the lock)"}, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)), func(r *role) { r.ConsumeTimeout = 1500 * time.Millisecond })
		s.send("order-1")
		s.await(sentBack, "order-1")
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Case 17: a member dies by kill -9 in its handler. Another one gets the message, hands it back as long as the dead one's claim lives, and then
// runs it, once. What the dead one had finished, but not yet acknowledged, is not run again.
func TestMemberIsKilled(t *testing.T) {
	play(t, setting{queues: 2, claims: true}, func(s *story) {
		victim := s.spawn("a")
		s.join("b", s.does(succeed))
		s.settle("a", "b")
		s.sendToDeath()
		victim.kill()
		s.await(succeeded, "fatal-order")
		s.takenOver("fatal-order", 1)
		s.wantTakeoverInTime()
		s.wantSuppressed()
	})
}

// The same when the dead member was the only one, and is started again.
func TestOnlyMemberIsKilledAndRestarted(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		victim := s.spawn("a")
		s.settle("a")
		s.sendToDeath()
		victim.kill()
		s.join("a", s.does(succeed))
		s.await(succeeded, "fatal-order")
		s.takenOver("fatal-order", 1)
		s.wantTakeoverInTime()
		s.wantSuppressed()
	})
}

// A message in flight is delayed by a level that outlasts the claim, so that a dead owner costs it one attempt.
func TestRetryOutlastsTheClaim(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		other := s.rival("busy", 6*time.Second)
		s.join("a", s.does(succeed))
		s.send("busy")
		s.await(sentBack, "busy")
		other.dies()
		s.await(acknowledged, "busy")
		s.takenOver("busy", 1)
		s.want(1, sentBack, "busy") // the level that the broker chooses, of 3 s, would have taken two
	})
}

// Case 17: work whose owner dies between its success and DONE is the one that nobody can know of: it runs again.
func TestMemberIsKilledBeforeDone(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		victim := s.spawn("b")
		s.send("doomed-order")
		s.await(succeeded, "doomed-order")
		victim.kill()
		s.join("a", s.does(succeed)) // whose name stands before the dead one's, see instance
		s.await(acknowledged, "doomed-order")
		s.takenOver("doomed-order", 1)
		s.want(2, started, "doomed-order")
		s.successes["doomed-order"] = 2
	})
}

const finishedBefore = 5

// sendToDeath sends a message over which its member is to be killed, and others behind it, which the member finishes first; it cannot
// acknowledge them to the broker as long as the one before them runs.
func (s *story) sendToDeath() {
	s.Helper()
	s.send("fatal-order", inQueue(0))
	s.await(started, "fatal-order")
	for i := range finishedBefore {
		name := fmt.Sprintf("done-%d", i)
		s.send(name, inQueue(0))
		s.await(acknowledged, name) // which the broker does not hear of
		s.copies[name]++            // the replay counts as one more
	}
}

// wantSuppressed waits until all that the dead member had finished has come again, and not run.
func (s *story) wantSuppressed() {
	s.Helper()
	for i := range finishedBefore {
		s.await(rmqdedup.EventSuppressed, fmt.Sprintf("done-%d", i))
	}
}

// wantTakeoverInTime checks that a message ran again, once, as soon after its member's death as the lease and the delay levels allow.
func (s *story) wantTakeoverInTime() {
	s.Helper()
	s.want(2, started, "fatal-order")
	const granularity, slack = time.Second, 3 * time.Second // of the levels; of a busy machine
	took := s.journal.all(succeeded, "fatal-order")[0].at - s.journal.all(killed, "")[0].at
	if limit := lease + granularity + slack; took > limit {
		s.Errorf("the message ran again after %v, want %v at most", took, limit)
	}
}
