package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

var orderedClientAlone = setting{mode: rmqdedup.Ordered, store: none, queues: 2}

// ConsumeRetryLater is no answer of an ordered consumer: the message is passed over, and acknowledged by the next one's success.
func TestOrderedClientRetryLaterLosesTheMessage(t *testing.T) {
	play(t, orderedClientAlone, func(s *story) {
		s.sendAll("lost", "next")
		s.listen("a", s.only(special{"lost": s.returns(consumer.ConsumeRetryLater, nil)}, s.does(succeed)))
		s.await(succeeded, "next")
		s.wantOrder(started, "lost", "next")
		s.endsWith(0, "lost") // and no answer is missing, which is checked at the end
		s.endsWith(1, "next")
	})
}

// Commit does not commit where the client commits by itself, as it does by default; the next success does.
func TestOrderedClientCommitDoesNotCommit(t *testing.T) {
	play(t, orderedClientAlone, func(s *story) {
		s.sendAll("order-1")
		a := s.listen("a", s.returns(consumer.Commit, nil))
		s.await(succeeded, "order-1")
		s.probe(1) // meanwhile the answer is taken in
		s.must(a.awaitCached(s.ctx, 1))
		a.leave(s.ctx)
		s.listen("b", s.does(succeed))
		s.await(succeeded, "order-1", 2)
		s.endsWith(2, "order-1")
	})
}

// A panic stops its queue for good: the client has lost the goroutine that reads it, and others go on.
func TestOrderedClientPanicStopsTheQueue(t *testing.T) {
	play(t, orderedClientAlone, func(s *story) {
		s.sendAll("bad", "next")
		a := s.listen("a", s.only(special{"bad": s.does(panics, succeed)}, s.does(succeed)))
		s.await(panicked, "bad")
		for range 3 {
			s.probe(1)
		}
		s.want(0, started, "next")
		a.leave(s.ctx)
		s.listen("b", s.does(succeed))
		s.await(succeeded, "next")
		s.wantOrder(started, "bad", "bad", "next")
		s.endsWith(1, "bad", "next")
	})
}

// A suspended queue whose pause was left at its -1 does not pause at all, whatever the consumer's own option says.
func TestOrderedClientSuspendsWithoutAPause(t *testing.T) {
	play(t, orderedClientAlone, func(s *story) {
		const calls = 200
		pauses := make(chan int, calls)
		var acts []act
		for range calls {
			acts = append(acts, func(ctx context.Context, _ *primitive.MessageExt) (consumer.ConsumeResult, error) {
				c, _ := primitive.GetOrderlyCtx(ctx)
				pauses <- c.SuspendCurrentQueueTimeMillis
				return consumer.SuspendCurrentQueueAMoment, nil
			})
		}
		s.listen("a", s.does(append(acts, succeed)...), consumer.WithSuspendCurrentQueueTimeMillis(time.Second))
		s.send("order-1")
		s.await(succeeded, "order-1")
		for range calls {
			if pause := <-pauses; pause != -1 {
				s.Fatalf("the pause is %d at first, want -1", pause)
			}
		}
		runs := s.journal.all(started, "order-1")
		if took := runs[calls].at - runs[0].at; took > calls*time.Second/10 {
			s.Errorf("%d calls took %v", calls, took)
		}
		s.endsWith(1, "order-1")
	})
}

// N as MaxReconsumeTimes means N + 2 calls of an ordered consumer, and the dead-letter message counts one of them.
func TestOrderedClientDeadLetters(t *testing.T) {
	play(t, orderedClientAlone, func(s *story) {
		suspend := func(ctx context.Context, _ *primitive.MessageExt) (consumer.ConsumeResult, error) {
			again(ctx)
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		s.sendAll("bad", "next")
		s.listen("a", s.only(special{"bad": s.does(suspend)}, s.does(succeed)), consumer.WithMaxReconsumeTimes(1))
		dead := s.deadLetters(1)[0]
		s.await(succeeded, "next")
		s.wantOrder(started, "bad", "bad", "bad", "next")
		if dead.ReconsumeTimes != 1 {
			s.Errorf("the dead-letter message counts %d attempts, want 1", dead.ReconsumeTimes)
		}
		s.endsWith(0, "bad")
		s.endsWith(1, "next")
	})
}
