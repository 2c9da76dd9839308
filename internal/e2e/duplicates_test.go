package e2e

import (
	"fmt"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A duplicate that comes while the first copy runs is handed back, and acknowledged unrun when it comes again.
func TestDuplicateWhileTheFirstRuns(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)))
		s.send("order-1")
		s.await(started, "order-1")
		s.send("order-1")
		s.await(sentBack, "order-1")
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// If the first copy fails, the duplicate is there to run.
func TestDuplicateRunsWhenTheFirstFails(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(then(hold(gate), fail), succeed))
		s.send("order-1")
		s.await(started, "order-1")
		s.send("order-1")
		s.await(sentBack, "order-1")
		close(gate)
		s.await(succeeded, "order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(2, started, "order-1")
	})
}

// Case 5: a producer's retry gives two message IDs for one order, and the second is acknowledged unrun.
func TestDuplicateAfterTheFirst(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.join("a", s.does(succeed))
		s.send("order-1", withID("producers-first-id"))
		s.await(acknowledged, "order-1")
		s.send("order-1", withID("producers-second-id"))
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Case 22: one message ID at two offsets, delivered at once to two members.
func TestOneMessageAtTwoOffsets(t *testing.T) {
	play(t, setting{queues: 2, claims: true}, func(s *story) {
		byID := func(r *role) { r.Key = rmqdedup.MessageID }
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)), byID)
		s.join("b", s.does(hold(gate)), byID)
		s.settle("a", "b")
		s.send("order-1", withID("the-id"), inQueue(0))
		s.send("order-1", withID("the-id"), inQueue(1))
		s.await(started, "order-1")
		s.await(sentBack, "order-1")
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Case 23: a group that begins anew, its offsets lost, acknowledges hundreds of finished messages without a run.
func TestReplay(t *testing.T) {
	play(t, setting{queues: 4, claims: true}, func(s *story) {
		const batches, size = 8, 50
		for b := range batches {
			s.sendBatch("order-%d", b*size, size, inQueue(b%4))
		}
		s.join("a", s.does(succeed)).awaitAll(batches * size)
		s.leaveAll(s.ctx)
		s.must(s.broker.rewind(s.ctx, s.group, s.topic))

		s.join("b", s.does(succeed)).awaitAll(2 * batches * size)
		s.want(batches*size, rmqdedup.EventSuppressed, "")
		s.want(batches*size, started, "")
	})
}

// Case 7: two consumer groups share one store, and both process the message.
func TestTwoGroupsShareAStore(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.join("a", s.does(succeed))
		s.send("order-1")
		s.await(acknowledged, "order-1")
		s.join("b", s.does(succeed), func(r *role) { r.group += "-other" })
		s.await(acknowledged, "order-1", 2)
		s.successes["order-1"] = 2
		s.want(0, rmqdedup.EventSuppressed, "order-1")
	})
}

// The handler's result decides, not its error.
func TestSuccessWithAnError(t *testing.T) {
	play(t, setting{store: private}, func(s *story) {
		s.expect(rmqdedup.EventSuccessWithError)
		s.join("a", s.does(then(fail, succeedWithAnError)))
		s.send("order-1")
	})
}

// In shadow mode everything is claimed and told, and nothing is suppressed.
func TestShadowMode(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.join("a", s.does(fail, succeed), func(r *role) { r.Shadow = true })
		s.send("order-1")
		s.await(acknowledged, "order-1")
		s.want(2, started, "order-1")
		s.send("order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.await(acknowledged, "order-1", 2)
		s.want(3, started, "order-1")
		s.successes["order-1"] = 2
	})
}

// A small, complete picture: several members, duplicates of every kind, failures, and each order done once.
func TestManyOrders(t *testing.T) {
	play(t, setting{queues: 4, claims: true}, func(s *story) {
		workers := func(r *role) { r.options = append(r.options, consumer.WithConsumeGoroutineNums(10)) }
		s.join("a", s.does(fail, succeed), workers)
		s.join("b", s.does(succeed), workers)
		for i := range 40 {
			name := fmt.Sprintf("order-%d", i)
			s.send(name, inQueue(i%4))
			if i%3 == 0 {
				s.send(name, inQueue((i+1)%4))
			}
		}
	})
}
