package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// What a broker, or what is between it and its clients, does at a certain moment.

// All queues of a member are taken away while its handler runs. The other member, which gets them, finds the message in flight, and then done.
func TestQueuesAreTakenInMidHandler(t *testing.T) {
	play(t, setting{queues: 2}, func(s *story) {
		gate := make(chan struct{})
		a := s.join("a", s.does(hold(gate)), by(s.broker.road(s)))
		s.join("b", s.does(succeed), by(s.broker.road(s)))
		s.settle("a", "b")
		s.send("order-1", inQueue(0))
		s.await(started, "order-1")
		s.must(s.broker.takeQueues(s, a))
		s.await(sentBack, "order-1")
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Two members disagree about a balance: each message goes to both at once, and runs in one.
func TestQueueIsReadByTwoAtOnce(t *testing.T) {
	play(t, setting{queues: 2}, func(s *story) {
		s.join("a", s.does(succeed), by(s.broker.road(s)))
		s.join("b", s.does(succeed), by(s.broker.road(s)))
		s.settle("a", "b")
		heal, err := s.broker.split(s)
		s.must(err)
		const n = 20
		for i := range n {
			name := fmt.Sprintf("order-%d", i)
			s.send(name, inQueue(i%2))
			s.copies[name]++
		}
		for i := range n {
			s.await(rmqdedup.EventSuppressed, fmt.Sprintf("order-%d", i))
		}
		s.must(heal())
		s.settle("a", "b") // what the one has read that the other has now comes again
		for i := range n {
			s.want(1, started, fmt.Sprintf("order-%d", i))
		}
	})
}

// A broker that does not know its members any more tells them that there are none: they let go of all their queues, and throw the success of a handler
// that runs away. At the next balance the message comes again, and does not run.
func TestMembersAreForgotten(t *testing.T) {
	play(t, setting{queues: 2}, func(s *story) {
		r := s.broker.road(s)
		gate := make(chan struct{})
		a := s.join("a", s.does(hold(gate)), by(r))
		s.settle("a", "a")
		s.send("order-1")
		s.await(started, "order-1")
		remember := r.forgetMembers()
		s.must(s.broker.rebalance(s), a.awaitQueues(s.ctx, 0))
		close(gate)
		s.await(succeeded, "order-1")
		remember()
		s.must(s.broker.rebalance(s))
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Case 21: the broker does not take a failed message back, but does take the copy that the client sends in its place.
func TestSendBackIsRefusedButNotTheCopy(t *testing.T) {
	play(t, setting{}, func(s *story) {
		r := s.broker.road(s)
		r.refuse(1, rmqtest.SendBack)
		s.join("a", s.does(fail, func(ctx context.Context, m *primitive.MessageExt) (consumer.ConsumeResult, error) {
			if level := m.GetProperty(primitive.PropertyDelayTimeLevel); level != "3" {
				s.Errorf("the message came again at level %q, want that of a copy, 3", level)
			}
			return succeed(ctx, m)
		}), func(r *role) { r.Key = rmqdedup.MessageID }, by(r))
		s.send("order-1")
		s.await(acknowledged, "order-1")
		s.want(2, started, "order-1")
	})
}

// The broker takes a failed message back, but its answer is lost. The client sends a copy in its place: two retries, of which one runs.
func TestSendBackHasNoAnswer(t *testing.T) {
	play(t, setting{}, func(s *story) {
		r := s.broker.road(s)
		lost := r.loseAnswer(rmqtest.SendBack)
		s.join("a", s.does(fail, succeed), func(r *role) { r.Key = rmqdedup.MessageID }, by(r))
		s.send("order-1")
		s.must(lost(s.ctx))
		s.copies["order-1"]++
		s.await(acknowledged, "order-1", 2)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(2, started, "order-1")
	})
}
