package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

var inOrder = setting{mode: rmqdedup.Ordered}

// sendAll sends messages to the first queue.
func (s *story) sendAll(names ...string) {
	s.Helper()
	for _, name := range names {
		s.send(name)
	}
}

// wantOrder checks in which order something happened.
func (s *story) wantOrder(what deed, names ...string) {
	s.Helper()
	if got := s.journal.order(what); !slices.Equal(got, names) {
		s.Errorf("%v in the order %q, want %q", what, got, names)
	}
}

// A message in the middle of a queue fails twice: those behind it wait, and nothing is lost.
func TestOrderedFailureInTheMiddle(t *testing.T) {
	play(t, inOrder, func(s *story) {
		s.sendAll("a", "b", "c", "d")
		s.join("a", s.only(special{"b": s.does(fail, fail, succeed)}, s.does(succeed)))
		s.await(acknowledged, "d")
		s.wantOrder(started, "a", "b", "b", "b", "c", "d")
		s.wantOrder(succeeded, "a", "b", "c", "d")
	})
}

// Case 18: a panic suspends the queue, and the queue goes on.
func TestOrderedPanic(t *testing.T) {
	play(t, inOrder, func(s *story) {
		s.expect(rmqdedup.EventPanic)
		s.sendAll("a", "b", "c")
		s.join("a", s.only(special{"b": s.does(panics, panics, succeed)}, s.does(succeed)))
		s.await(acknowledged, "c")
		s.wantOrder(started, "a", "b", "b", "b", "c")
	})
}

// Duplicates are acknowledged unrun wherever they stand, and a replay runs nothing.
func TestOrderedDuplicates(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, claims: true}, func(s *story) {
		s.sendAll("a", "b", "a", "c", "b")
		first := s.join("a", s.does(succeed)).awaitAll(5)
		s.wantOrder(started, "a", "b", "c")
		first.leave(s.ctx)
		s.must(s.broker.rewind(s.ctx, s.group, s.topic))
		s.join("b", s.does(succeed)).awaitAll(10)
		s.want(3, started, "")
	})
}

// Case 19: a message in flight elsewhere holds up its queue without costing an attempt, until the other process has succeeded …
func TestOrderedInFlight(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, claims: true}, func(s *story) {
		other := s.rival("busy", lease)
		s.sendAll("busy", "next")
		s.join("a", s.does(succeed))
		s.await(rmqdedup.EventInFlight, "busy")
		s.want(0, started, "")
		other.finishes()
		s.await(acknowledged, "next")
		s.want(0, suspended, "")
		s.wantOrder(started, "next")
		s.successes["busy"] = 0
	})
}

// … or has died, when its lease is over.
func TestOrderedInFlightOfADeadOwner(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, claims: true}, func(s *story) {
		other := s.rival("busy", lease)
		s.sendAll("busy", "next")
		s.join("a", s.does(succeed))
		s.await(rmqdedup.EventInFlight, "busy")
		other.dies()
		s.await(acknowledged, "next")
		s.takenOver("busy", 1)
		s.want(0, suspended, "")
		s.wantOrder(started, "busy", "next")
	})
}

// What is in flight for longer than a delivery waits for suspends its queue, with a pause.
func TestOrderedInFlightForLong(t *testing.T) {
	play(t, inOrder, func(s *story) {
		other := s.rival("busy", lease)
		s.sendAll("busy", "next")
		s.join("a", s.does(succeed), func(r *role) { r.InFlightWait = 200 * time.Millisecond })
		s.await(suspended, "busy", 3)
		other.fails()
		s.await(acknowledged, "next")
		s.wantOrder(started, "busy", "next")
		times := s.journal.all(suspended, "busy")
		if pause := times[2].at - times[1].at; pause < 300*time.Millisecond {
			s.Errorf("suspended again after %v; the wait and the pause are 300ms together", pause)
		}
	})
}

// Case 20, ordered: only what stands before the message in flight runs; what stands behind it runs after it.
func TestOrderedMixedBatch(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, claims: true}, func(s *story) {
		s.finished("done")
		s.sendAll("done", "before", "busy", "after")
		other := s.rival("busy", lease)
		ran := newCalls()
		s.join("a", ran.of(s.does(succeed)), inBatches)
		s.wantCall(ran, "before")
		s.await(rmqdedup.EventInFlight, "busy")
		if state := s.state("after"); state != rmqdedup.Absent {
			s.Errorf("the message behind the one in flight is %v, though its delivery waits", state)
		}
		other.fails()
		s.wantCall(ran, "busy", "after")
		s.await(acknowledged, "after")
		s.want(0, started, "done")
	})
}

// What a handler may answer in ordered mode: Commit is success like ConsumeSuccess, everything else is failure and loses nothing.
func TestOrderedAnswers(t *testing.T) {
	play(t, inOrder, func(s *story) {
		answers := func(r consumer.ConsumeResult) rmqdedup.Handler {
			return s.does(func(context.Context, *primitive.MessageExt) (consumer.ConsumeResult, error) { return r, nil }, succeed)
		}
		s.sendAll("success", "commit", "retry", "suspend", "rollback", "last")
		s.join("a", s.only(special{
			"success": answers(consumer.ConsumeSuccess), "commit": answers(consumer.Commit),
			"retry": answers(consumer.ConsumeRetryLater), "suspend": answers(consumer.SuspendCurrentQueueAMoment), "rollback": answers(consumer.Rollback),
		}, s.does(succeed)))
		s.await(acknowledged, "last")
		s.wantOrder(started, "success", "commit", "retry", "retry", "suspend", "suspend", "rollback", "rollback", "last")
		s.wantOrder(suspended, "retry", "suspend", "rollback")
	})
}

// While the store is away an ordered queue stands still, and goes on in order when it is back.
func TestOrderedOutageUnderClosed(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, store: fragile, claims: true}, func(s *story) {
		s.outage(rmqdedup.EventHeld)
		s.join("a", s.does(succeed))
		s.send("before")
		s.await(acknowledged, "before")
		s.line.cut()
		s.sendAll("a", "b", "c")
		s.await(unanswered, "a", someSeconds)
		s.want(1, started, "")
		s.line.mend()
		s.await(acknowledged, "c")
		s.wantOrder(started, "before", "a", "b", "c")
		s.want(0, suspended, "")
	})
}

// Under the policy Open it goes on without claims, in order too.
func TestOrderedOutageUnderOpen(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, store: fragile, claims: true}, func(s *story) {
		s.outage(rmqdedup.EventUnprotected, rmqdedup.EventWritePending, rmqdedup.EventWriteLanded)
		s.join("a", s.does(succeed), func(r *role) { r.Outage = rmqdedup.Open })
		s.send("before")
		s.await(acknowledged, "before")
		s.line.cut()
		s.sendAll("a", "b", "c")
		s.await(acknowledged, "c")
		s.line.mend()
		s.await(rmqdedup.EventWriteLanded, "", 3)
		s.send("b")
		s.await(rmqdedup.EventSuppressed, "b")
		s.wantOrder(started, "before", "a", "b", "c")
	})
}

// An ordered message that its handler refuses to the end is dead-lettered after two calls more than it may come again, since the client counts
// so, and its queue goes on.
func TestOrderedRefusedToTheEnd(t *testing.T) {
	play(t, inOrder, func(s *story) {
		s.sendAll("a", "bad", "c")
		s.join("a", s.only(special{"bad": s.does(fail)}, s.does(succeed)), attempts(2))
		s.deadLetters(1)
		s.await(acknowledged, "c")
		s.want(4, started, "bad")
		s.wantOrder(succeeded, "a", "c")
		s.successes["bad"] = 0
	})
}

// An ordered message in flight at its last attempt is waited for rather than dead-lettered.
func TestOrderedLastAttempt(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, claims: true}, func(s *story) {
		other := s.rival("busy", lease)
		s.sendAll("busy", "next")
		s.join("a", s.does(succeed), attempts(1), func(r *role) { r.InFlightWait = 200 * time.Millisecond })
		s.await(rmqdedup.EventLastAttempt, "busy")
		s.await(renewed, "busy", 6) // for a whole lease, of which a delivery waits for much less otherwise
		s.want(2, suspended, "busy")
		other.finishes()
		s.await(acknowledged, "next")
		s.successes["busy"] = 0
	})
}

// Case 17: the only member is killed by -9 in its handler, and restarted. The queue goes on in order where it was.
func TestOrderedMemberIsKilledAndRestarted(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered, claims: true}, func(s *story) {
		victim := s.spawn("a")
		s.sendAll("before", "fatal-order", "after")
		s.await(started, "fatal-order")
		victim.kill()
		s.join("a", s.does(succeed))
		s.await(acknowledged, "after")
		s.takenOver("fatal-order", 1)
		s.wantTakeoverInTime()
		s.wantOrder(started, "before", "fatal-order", "fatal-order", "after")
	})
}

// An operator's "consume directly" calls an ordered consumer's listener as if it were a concurrent one. A finished message is answered as a
// success without a run, one that is not runs, and one that fails is an error to the operator.
func TestOrderedConsumeDirectly(t *testing.T) {
	play(t, inOrder, func(s *story) {
		s.expect(rmqdedup.EventContradiction)
		s.sendAll("done", "bad")
		a := s.join("a", s.only(special{"bad": s.does(fail, fail, fail, succeed)}, s.does(succeed)), attempts(rmqdedup.NoReconsume))
		s.deadLetters(1)
		sent, err := s.broker.messages(s.ctx, s.topic, 2)
		s.must(err)
		for _, c := range []struct {
			of, result, runs int
		}{{0, 0, 1}, {1, 4, 3}, {1, 0, 4}, {1, 0, 4}} {
			m := sent[c.of]
			got, err := s.broker.consumeDirectly(s.ctx, s.group, s.instance(a.name), m)
			if s.must(err); got.Result != c.result {
				s.Errorf("%q: answered %+v, want %d", nameOf(&m.Message), got, c.result)
			}
			s.want(c.runs, started, nameOf(&m.Message))
		}
		s.successes["bad"] = 1
	})
}
