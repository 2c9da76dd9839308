package e2e

import (
	"fmt"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// What only the broker in process can be made to do at a certain moment.

// inProcess is the broker of a story that needs canDirect.
func (s *story) inProcess() *rmqtest.Broker { return s.broker.(*inProcess).broker }

var directed = setting{queues: 2, needs: []ability{canDirect}}

// All queues of a member are taken away while its handler runs. The other member, which gets them, finds the message in flight, and then done.
func TestQueuesAreTakenInMidHandler(t *testing.T) {
	play(t, directed, func(s *story) {
		gate := make(chan struct{})
		a := s.join("a", s.does(hold(gate)))
		s.join("b", s.does(succeed))
		s.settle("a", "b")
		s.send("order-1", inQueue(0))
		s.await(started, "order-1")
		_, err := s.inProcess().TakeQueues(s.ctx, s.group, s.instance(a.name))
		s.must(err)
		s.await(sentBack, "order-1")
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Two members disagree about a balance: each message goes to both at once, and runs in one.
func TestQueueIsReadByTwoAtOnce(t *testing.T) {
	play(t, directed, func(s *story) {
		s.join("a", s.does(succeed))
		s.join("b", s.does(succeed))
		s.settle("a", "b")
		heal, err := s.inProcess().Split(s.ctx, s.group)
		s.must(err)
		const n = 20
		for i := range n {
			name := fmt.Sprintf("order-%d", i)
			s.send(name, inQueue(i%2))
			s.copies[name]++
		}
		s.await(acknowledged, "", n)
		s.must(s.inProcess().WaitForSettled(s.ctx, s.group, s.topic), heal(s.ctx))
		for i := range n {
			s.await(rmqdedup.EventSuppressed, fmt.Sprintf("order-%d", i))
			s.want(1, started, fmt.Sprintf("order-%d", i))
		}
	})
}

// A broker that does not know its members any more tells them that there are none: they let go of all their queues, and throw the success of a handler
// that runs away. At the next balance the message comes again, and does not run.
func TestMembersAreForgotten(t *testing.T) {
	play(t, directed, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)))
		s.settle("a", "a")
		s.send("order-1")
		s.await(started, "order-1")
		remove := s.inProcess().Hook(func(r *rmqtest.Request) rmqtest.Action {
			if r.Code == rmqtest.ListMembers && r.Group == s.group {
				return rmqtest.Action{Answer: &rmqtest.Answer{Status: rmqtest.SystemError}}
			}
			return rmqtest.Action{}
		})
		s.must(s.inProcess().Rebalance(s.ctx, s.group))
		close(gate)
		s.await(succeeded, "order-1")
		remove()
		s.must(s.inProcess().Rebalance(s.ctx, s.group))
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// Case 21: the broker does not take a failed message back, but does take the copy that the client sends in its place.
func TestSendBackIsRefusedButNotTheCopy(t *testing.T) {
	play(t, directed, func(s *story) {
		s.inProcess().RefuseSendBacks(1)
		s.join("a", s.does(fail, succeed), func(r *role) { r.Key = rmqdedup.MessageID })
		s.send("order-1")
		s.await(acknowledged, "order-1")
		s.want(2, started, "order-1")
	})
}

// The broker takes a failed message back, but its answer is lost. The client sends a copy in its place: two retries, of which one runs.
func TestSendBackHasNoAnswer(t *testing.T) {
	play(t, directed, func(s *story) {
		s.inProcess().LoseReplies(rmqtest.SendBack, 1)
		s.join("a", s.does(fail, succeed), func(r *role) { r.Key = rmqdedup.MessageID })
		s.send("order-1")
		s.copies["order-1"]++
		s.await(acknowledged, "order-1", 2)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(2, started, "order-1")
	})
}

// The broker goes down after a producer's message came and before its answer did, and is up again with or without that message: the producer sends it
// again, and it runs once. What was done before does not run again, though the group's progress may be lost as well.
func TestBrokerRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		lose   func(*rmqtest.Broker, rmqtest.Code, int) (lift func())
		how    rmqtest.Restart
		copies int
	}{
		"KeepsTheMessage": {(*rmqtest.Broker).LoseReplies, rmqtest.Restart{}, 2},
		"LosesTheMessage": {(*rmqtest.Broker).LoseRequests, rmqtest.Restart{}, 1},
		"LosesProgress":   {(*rmqtest.Broker).LoseReplies, rmqtest.Restart{Crash: true, LoseOffsets: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, setting{needs: []ability{canDirect}}, func(s *story) {
				b := s.inProcess()
				s.join("a", s.does(succeed))
				s.send("before")
				s.await(acknowledged, "before")
				s.leaveAll(s.ctx)
				s.must(b.WaitForMembers(s.ctx, s.group, 0))

				s.startProducer(b.Addr(), producer.WithSendMsgTimeout(impatience), producer.WithRetry(5))
				m, sent := s.message("order-1"), make(chan error, 1)
				c.lose(b, rmqtest.Send, 1)
				came := b.RequestCount(rmqtest.Send) + 1
				go func() {
					_, err := s.producer.SendSync(s.ctx, m)
					sent <- err
				}()
				s.must(b.WaitForRequests(s.ctx, rmqtest.Send, came), b.Restart(s.ctx, c.how), <-sent)
				s.copies["order-1"] = c.copies
				if c.how.LoseOffsets {
					s.copies["before"]++
				}
				s.join("b", s.does(succeed))
				s.await(acknowledged, "order-1", c.copies)
				s.want(1, started, "order-1")
				s.want(1, started, "before")
			})
		})
	}
}

// The broker goes down and comes up under a member whose handler runs. The member is back by itself; the message may come again, and does not run.
func TestBrokerRestartsInMidHandler(t *testing.T) {
	play(t, directed, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)))
		s.settle("a", "a")
		s.send("order-1")
		s.await(started, "order-1")
		s.must(s.inProcess().Restart(s.ctx, rmqtest.Restart{LoseOffsets: true}))
		s.must(s.inProcess().WaitForMembers(s.ctx, s.group, 1))
		close(gate)
		s.await(acknowledged, "order-1")
		s.send("order-2")
		s.await(acknowledged, "order-2")
		s.want(1, started, "order-1")
	})
}
