package e2e

import (
	"context"
	"slices"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// inBatches lets a member take up to 16 messages in one call.
func inBatches(r *role) { r.options = append(r.options, consumer.WithConsumeMessageBatchMaxSize(16)) }

// calls notes the names of the messages of each call of a handler.
type calls struct{ lists chan []string }

func newCalls() calls { return calls{make(chan []string, 100)} }

func (c calls) of(h rmqdedup.Handler) rmqdedup.Handler {
	return func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		var names []string
		for _, m := range msgs {
			names = append(names, nameOf(&m.Message))
		}
		c.lists <- names
		return h(ctx, msgs...)
	}
}

// wantCall checks what the next call was for.
func (s *story) wantCall(c calls, names ...string) {
	s.Helper()
	select {
	case got := <-c.lists:
		if !slices.Equal(got, names) {
			s.Errorf("the handler was called with %q, want %q", got, names)
		}
	case <-s.ctx.Done():
		s.Fatalf("waiting for a call with %q: %v", names, context.Cause(s.ctx))
	}
}

// finished are messages that another process has done.
func (s *story) finished(names ...string) {
	s.Helper()
	for _, name := range names {
		s.rival(name, lease).finishes()
		s.successes[name] = 0
	}
}

// Case 20: of a batch [done, in flight, new] only what is new runs, once. The batch comes again because of the one in flight, of which the other
// process makes a success here.
func TestMixedBatch(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.finished("done")
		for _, name := range []string{"done", "busy", "new"} {
			s.send(name) // all there before the consumer is: one pull, one delivery
		}
		other := s.rival("busy", lease)
		ran := newCalls()
		s.join("a", ran.of(s.does(succeed)), inBatches)
		s.wantCall(ran, "new")
		s.await(sentBack, "new")
		other.finishes()
		s.await(rmqdedup.EventSuppressed, "busy")
		s.await(rmqdedup.EventSuppressed, "new")
		s.await(acknowledged, "done")
		s.want(1, started, "new")
		s.want(0, started, "busy")
		s.successes["busy"] = 0 // it was the other's
	})
}

// The same when the other process fails: the message in flight runs when it comes again.
func TestMixedBatchWhoseRivalFails(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.send("busy")
		s.send("new")
		other := s.rival("busy", lease)
		ran := newCalls()
		s.join("a", ran.of(s.does(succeed)), inBatches)
		s.wantCall(ran, "new")
		s.await(sentBack, "busy")
		other.fails()
		s.wantCall(ran, "busy")
	})
}

// Case 20: of a batch [done, fails, unseen] the handler sees the last two, and its failure is that of both; the next time what is done is
// skipped again.
func TestBatchWithAFailure(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.finished("done")
		for _, name := range []string{"done", "fails", "unseen"} {
			s.send(name)
		}
		ran := newCalls()
		s.join("a", ran.of(s.only(special{"fails": s.does(fail, succeed)}, s.does(succeed))), inBatches)
		s.wantCall(ran, "fails", "unseen")
		s.await(acknowledged, "fails")
		s.await(acknowledged, "unseen")
		s.await(acknowledged, "done")
		s.want(0, started, "done")
		s.want(2, started, "unseen")
	})
}

// Case 20: a batch of finished messages is acknowledged without a call; one key twice in a batch is one run.
func TestBatchOfOneKindOnly(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.finished("done-1", "done-2")
		s.send("done-1")
		s.send("done-2")
		ran := newCalls()
		m := s.join("a", ran.of(s.does(succeed)), inBatches)
		s.await(acknowledged, "done-1")
		s.await(acknowledged, "done-2")
		m.leave(s.ctx)
		for range 3 {
			s.send("twins")
		}
		s.join("a", ran.of(s.does(succeed)), inBatches)
		s.wantCall(ran, "twins")
		s.await(acknowledged, "twins", 3)
		s.await(rmqdedup.EventRepeated, "twins", 2)
	})
}

// Members of a batch send have no ID of their own: theirs changes at every retry. With MessageID as the key each is done once all the same,
// though each fails once, and a replay runs none.
func TestBatchSendMembersByMessageID(t *testing.T) {
	play(t, setting{}, func(s *story) {
		byID := func(r *role) { r.Key = rmqdedup.MessageID }
		s.sendBatch("order-%d", 0, 10)
		s.join("a", s.does(fail, succeed), byID).awaitAll(10)
		s.leaveAll(s.ctx)
		s.must(s.broker.rewind(s.ctx, s.group, s.topic))
		s.join("b", s.does(succeed), byID).awaitAll(20)
		s.want(20, started, "")
	})
}
