package e2e

import (
	"context"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// attempts is how often a member's messages may come again.
func attempts(n int32) func(*role) { return func(r *role) { r.MaxReconsumeTimes = n } }

// deadLetters waits for so many dead-letter messages of the group, which the story expects.
func (s *story) deadLetters(n int) []*primitive.MessageExt {
	s.Helper()
	s.deadLettered = n
	all, err := s.broker.messages(s.ctx, s.deadLetterTopic(), n)
	s.must(err)
	return all
}

// resend sends a dead-letter message to its topic again, with the properties that its producer gave it.
func (s *story) resend(dead *primitive.MessageExt) {
	s.Helper()
	m := primitive.NewMessage(s.topic, dead.Body)
	for _, name := range []string{primitive.PropertyKeys, primitive.PropertyUniqueClientMessageIdKeyIndex} {
		m.WithProperty(name, dead.GetProperty(name))
	}
	s.post(m)
}

// A message that its handler refuses to the end is dead-lettered, after one call more than it may come again. Case 26: sent once more, it
// runs, since it failed; and after that it is skipped, since it is done.
func TestRefusedToTheEnd(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.join("a", s.does(fail, fail, fail, succeed), attempts(2))
		s.send("order-1")
		dead := s.deadLetters(1)
		s.want(3, started, "order-1")
		s.resend(dead[0])
		s.await(acknowledged, "order-1")
		s.resend(dead[0])
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(4, started, "order-1")
		s.successes["order-1"] = 1 // of one copy fewer than were sent
	})
}

// A duplicate at its last attempt waits for the one in flight rather than be dead-lettered, and is acknowledged when that succeeds.
func TestDuplicateAtItsLastAttempt(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)), attempts(1))
		s.send("order-1")
		s.await(started, "order-1")
		s.send("order-1")
		s.await(sentBack, "order-1")
		s.await(rmqdedup.EventLastAttempt, "order-1")
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// The same when the one in flight fails: the one that waited takes its place.
func TestDuplicateAtItsLastAttemptRuns(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(then(hold(gate), fail), succeed), attempts(1))
		s.send("order-1")
		s.await(started, "order-1")
		s.send("order-1")
		s.await(rmqdedup.EventLastAttempt, "order-1")
		close(gate)
		s.await(succeeded, "order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(2, started, "order-1")
	})
}

// A handler's own negative delay level is kept: straight to the dead-letter queue.
func TestHandlerDeadLettersItself(t *testing.T) {
	play(t, setting{store: private}, func(s *story) {
		s.join("a", func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			c, _ := primitive.GetConcurrentlyCtx(ctx)
			c.DelayLevelWhenNextConsume = -1
			return consumer.ConsumeRetryLater, nil
		})
		s.send("order-1")
		s.deadLetters(1)
		s.want(1, started, "order-1")
		s.successes["order-1"] = 0
	})
}

// With batches the client sends all of one back: what is done is dead-lettered together with what was refused, which is told. Case 26: sent
// again, what was done is skipped and what was refused runs.
func TestBatchMateIsDeadLettered(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.expect(rmqdedup.EventBatchMateDeadLettered)
		s.finished("done")
		s.send("done")
		s.send("refused")
		s.join("a", s.only(special{"refused": s.does(fail, succeed)}, s.does(succeed)), inBatches, attempts(rmqdedup.NoReconsume))
		dead := s.deadLetters(2)
		s.await(rmqdedup.EventBatchMateDeadLettered, "done")
		s.want(1, started, "refused")
		for _, m := range dead {
			s.resend(m)
		}
		s.await(acknowledged, "refused")
		s.await(rmqdedup.EventSuppressed, "done", 2)
		s.want(0, started, "done")
		s.successes["refused"] = 1
	})
}
