package e2e

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// What the client does behind a listener's back, without this library. Each of these is something that the library relies on or mends.

var clientAlone = setting{store: none}

// returns is a handler that answers with r at a message's first run, and with success after that.
func (s *story) returns(r consumer.ConsumeResult, err error) func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	return s.does(func(ctx context.Context, _ *primitive.MessageExt) (consumer.ConsumeResult, error) {
		again(ctx)
		return r, err
	}, succeed)
}

// endsWith says how often messages are to succeed; without the library there is nobody to tell when they are acknowledged.
func (s *story) endsWith(successes int, names ...string) {
	for _, name := range names {
		s.successes[name] = successes
	}
}

// In concurrent mode only ConsumeSuccess acknowledges, with or without an error; every other answer sends the message back.
func TestClientResults(t *testing.T) {
	play(t, clientAlone, func(s *story) {
		s.listen("a", s.only(special{
			"success": s.returns(consumer.ConsumeSuccess, nil), "success+error": s.returns(consumer.ConsumeSuccess, errors.New("logged")),
			"retry": s.returns(consumer.ConsumeRetryLater, nil), "commit": s.returns(consumer.Commit, nil),
			"rollback": s.returns(consumer.Rollback, nil), "suspend": s.returns(consumer.SuspendCurrentQueueAMoment, nil),
		}, s.does(succeed)))
		s.sendAll("success", "success+error", "retry", "commit", "rollback", "suspend")
		for _, name := range []string{"retry", "commit", "rollback", "suspend"} {
			s.await(started, name, 2)
		}
		back, err := s.broker.stored(s.ctx, s.retryTopic())
		if s.must(err); back != 4 {
			s.Errorf("%d messages were sent back, want 4", back)
		}
		s.endsWith(1, "success", "success+error", "retry", "rollback", "suspend")
		s.endsWith(2, "commit") // which the journal takes for a success, as it is to an ordered consumer
	})
}

// The delay level is read when the listener has returned; left at 0 it is the broker's choice, 3 + attempts.
func TestClientReadsTheDelayLevelAfterTheListener(t *testing.T) {
	play(t, clientAlone, func(s *story) {
		levels := make(chan string, 2)
		s.listen("a", s.does(func(ctx context.Context, m *primitive.MessageExt) (consumer.ConsumeResult, error) {
			levels <- m.GetProperty(primitive.PropertyDelayTimeLevel)
			if nameOf(&m.Message) == "chosen" {
				again(ctx)
			}
			return consumer.ConsumeRetryLater, nil
		}, func(_ context.Context, m *primitive.MessageExt) (consumer.ConsumeResult, error) {
			levels <- m.GetProperty(primitive.PropertyDelayTimeLevel)
			return consumer.ConsumeSuccess, nil
		}))
		for name, want := range map[string]string{"chosen": "1", "left alone": "3"} {
			s.send(name)
			s.await(succeeded, name)
			if first, second := <-levels, <-levels; first != "" || second != want {
				s.Errorf("%s: level %q at the first delivery and %q at the second, want none and %q", name, first, second, want)
			}
			s.endsWith(1, name)
		}
	})
}

// A panic is recovered by the client, but the message is neither acknowledged nor sent back, and the queue's offset stays: after a restart it comes
// again, with those behind it that were done.
func TestClientPanic(t *testing.T) {
	play(t, clientAlone, func(s *story) {
		a := s.listen("a", s.only(special{"bad": s.does(panics, succeed)}, s.does(succeed)))
		s.sendAll("bad", "next")
		s.await(panicked, "bad")
		s.await(succeeded, "next")
		s.must(a.awaitCached(s.ctx, 1))
		a.leave(s.ctx)
		s.listen("b", s.does(succeed))
		s.await(succeeded, "bad")
		s.await(succeeded, "next", 2)
		s.endsWith(1, "bad")
		s.endsWith(2, "next")
	})
}

// The slice that a listener is given is the one that the client acknowledges from: what a listener drops from it in place is not acknowledged.
func TestClientAcknowledgesFromTheListenersSlice(t *testing.T) {
	play(t, clientAlone, func(s *story) {
		s.sendAll("dropped", "kept")
		a := s.listen("a", func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			if len(msgs) != 2 {
				s.Errorf("%d messages in one call, want 2", len(msgs))
			}
			msgs[0] = msgs[len(msgs)-1]
			return consumer.ConsumeSuccess, nil
		}, consumer.WithConsumeMessageBatchMaxSize(2))
		s.await(succeeded, "kept")
		s.must(a.awaitCached(s.ctx, 1))
		a.leave(s.ctx)
		s.listen("b", s.does(succeed))
		s.await(succeeded, "dropped", 2)
		s.await(succeeded, "kept", 2) // which stands behind it
		s.endsWith(2, "dropped", "kept")
	})
}

// A message is stamped with the time at which its listener was called, which the client's own sweep of late messages goes by.
func TestClientStampsTheStart(t *testing.T) {
	play(t, clientAlone, func(s *story) {
		stamps := make(chan string, 1)
		s.listen("a", s.does(func(_ context.Context, m *primitive.MessageExt) (consumer.ConsumeResult, error) {
			stamps <- m.GetProperty(primitive.PropertyConsumeStartTime)
			return consumer.ConsumeSuccess, nil
		}))
		before := time.Now().UnixMilli()
		s.send("order-1")
		stamp, err := strconv.ParseInt(<-stamps, 10, 64)
		if err != nil || stamp < before || stamp > time.Now().UnixMilli() {
			s.Errorf("%s is %d (%v)", primitive.PropertyConsumeStartTime, stamp, err)
		}
		s.endsWith(1, "order-1")
	})
}

// Shutdown does not wait for a handler, and throws its success away.
func TestClientShutdownThrowsResultsAway(t *testing.T) {
	play(t, clientAlone, func(s *story) {
		gate := make(chan struct{})
		a := s.listen("a", s.does(hold(gate)))
		s.send("order-1")
		s.await(started, "order-1")
		a.leave(s.ctx)
		close(gate)
		s.await(succeeded, "order-1")
		s.listen("b", s.does(succeed))
		s.await(succeeded, "order-1", 2)
		s.endsWith(2, "order-1")
	})
}

// The ID of a message that was sent alone survives its retries. A batch send's members have none of their own: theirs changes with every retry, and
// ORIGIN_MESSAGE_ID, which is absent at first, is what stays.
func TestClientMessageIDs(t *testing.T) {
	play(t, clientAlone, func(s *story) {
		type ids struct{ id, unique, origin string }
		seen := make(chan ids, 3)
		note := func(ctx context.Context, m *primitive.MessageExt) (consumer.ConsumeResult, error) {
			seen <- ids{m.MsgId, m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex), m.GetProperty(primitive.PropertyOriginMessageId)}
			return fail(ctx, m)
		}
		quiet := s.does(succeed)
		s.listen("a", s.only(special{"second": quiet}, s.does(note, note, then(note, succeed))))

		s.send("alone")
		a, b, c := <-seen, <-seen, <-seen
		if a.id == "" || a.id != a.unique || b.id != a.id || c.id != a.id || a.origin != "" {
			s.Errorf("sent alone: %+v, %+v, %+v", a, b, c)
		}
		s.post(s.message("first"), s.message("second"))
		a, b, c = <-seen, <-seen, <-seen
		if a.unique != "" || a.origin != "" || b.id == a.id || c.id == b.id || b.origin != a.id || c.origin != a.id {
			s.Errorf("sent in a batch: %+v, %+v, %+v", a, b, c)
		}
		s.endsWith(1, "alone", "first", "second")
	})
}

// N as MaxReconsumeTimes means N + 1 calls; the dead-letter message keeps what its producer gave it.
func TestClientDeadLetters(t *testing.T) {
	play(t, clientAlone, func(s *story) {
		s.listen("a", s.does(fail), consumer.WithMaxReconsumeTimes(2))
		s.send("order-1", withID("the-id"))
		dead := s.deadLetters(1)[0]
		s.want(3, started, "order-1")
		if dead.MsgId != "the-id" || dead.GetKeys() != "order-1" || dead.ReconsumeTimes != 3 || dead.GetProperty(primitive.PropertyRetryTopic) != s.topic {
			s.Errorf("dead letter: %v", dead)
		}
		s.endsWith(0, "order-1")
	})
}
