package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// impatience is how long the producers of these stories wait for an answer before they send again.
const impatience = time.Second

// resent sends a message while something befalls the answers, which lasts until the producer has sent it again. It returns how many copies of it the
// broker has then.
func (s *story) resent(r road, befall func() (over func()), name string) int {
	s.Helper()
	s.startProducer(r.names, producer.WithSendMsgTimeout(impatience), producer.WithRetry(5))
	m := s.message(name)
	over := sync.OnceFunc(befall())
	defer over()
	sent := make(chan error, 1)
	go func() {
		_, err := s.producer.SendSync(s.ctx, m)
		sent <- err
	}()
	s.must(eventually(s.ctx, "a second copy of "+name, func() (bool, error) {
		n, err := s.broker.stored(s.ctx, s.topic)
		return n > 1, err
	}))
	over()
	s.must(<-sent)
	n, err := s.broker.stored(s.ctx, s.topic)
	s.must(err)
	s.copies[name] = int(n)
	return int(n)
}

// Case 5: a producer has no answer, though its message is stored, and so sends it again: each copy but one is acknowledged unrun.
func TestProducerSendsAgain(t *testing.T) {
	for name, befall := range map[string]func(road) (over func()){
		"AnswerLost":    func(r road) func() { return r.loseAnswers() },
		"ConnectionCut": func(r road) func() { return r.cutAnswers() },
		"AnswerLate":    func(r road) func() { return r.delayAnswers() },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, setting{}, func(s *story) {
				r := s.broker.road(s)
				s.join("a", s.does(succeed), func(r *role) { r.Key = rmqdedup.MessageID })
				copies := s.resent(r, func() func() { return befall(r) }, "order-1")
				s.await(rmqdedup.EventSuppressed, "order-1", copies-1)
				s.want(1, started, "order-1")
			})
		})
	}
}

// A member's connection breaks while its handler runs, and the broker gives its queue to another member, which finds the message in flight and hands
// it back. The handler's success counts, and nothing runs again.
func TestMemberIsDisconnected(t *testing.T) {
	play(t, setting{queues: 2}, func(s *story) {
		r := s.broker.road(s)
		gate := make(chan struct{})
		s.join("a", s.does(succeed)) // who has the retry queue too: the other's client needs half a minute to pull again
		b := s.join("b", s.does(hold(gate)), by(r))
		s.settle("a", "b")
		s.send("order-1", inQueue(1))
		s.await(started, "order-1")
		s.must(r.disconnect(s.instance(b.name)))
		s.must(eventually(s.ctx, "the other to have the message", func() (bool, error) {
			// It may have been back before the other had looked, and is cut off again then.
			return len(s.journal.all(rmqdedup.EventInFlight, "order-1")) > 0, r.disconnect(s.instance(b.name))
		}))
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

// A message that is stored twice, by the broker's own doing or its producer's, is one piece of work.
func TestMessageIsStoredTwice(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.join("a", s.does(succeed), func(r *role) { r.Key = rmqdedup.MessageID })
		m := s.message("order-1")
		s.copies["order-1"] = 2
		s.broker.storeTwice(func() { s.post(m) })
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

func (*rocketMQ) storeTwice(send func()) { send(); send() } // a message that is sent again keeps its ID

func (b *inProcess) storeTwice(send func()) {
	b.broker.DoubleSends(1)
	send()
}

// A message that was done long ago is there again.
func TestMessageIsDuplicatedLater(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.join("a", s.does(fail, succeed), func(r *role) { r.Key = rmqdedup.MessageID })
		m := s.message("order-1")
		s.post(m)
		s.await(acknowledged, "order-1")
		s.must(s.broker.duplicate(s.topic, func() { s.post(m) }))
		s.copies["order-1"] = 2
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(2, started, "order-1")
	})
}

func (*rocketMQ) duplicate(_ string, resend func()) error { resend(); return nil }

func (b *inProcess) duplicate(topic string, _ func()) error {
	return b.broker.Duplicate(b.broker.Messages(topic)[0])
}

// Case 23: a member's progress does not reach the broker. Whoever comes after it begins where it began, and has nothing to do.
func TestProgressIsLost(t *testing.T) {
	play(t, setting{}, func(s *story) {
		end := s.broker.loseProgress(s.group, s.topic)
		s.sendBatch("order-%d", 0, 5)
		s.join("a", s.does(succeed)).awaitAll(5)
		s.leaveAll(s.ctx)
		s.must(end(s.ctx))
		s.join("b", s.does(succeed)).awaitAll(10)
		s.want(5, rmqdedup.EventSuppressed, "")
		s.want(5, started, "")
	})
}

func (b *rocketMQ) loseProgress(group, topic string) (end func(context.Context) error) {
	return func(ctx context.Context) error { return b.rewind(ctx, group, topic) }
}

func (b *inProcess) loseProgress(group, _ string) (end func(context.Context) error) {
	hear := b.broker.LoseCommits(group)
	return func(ctx context.Context) error {
		defer hear()
		return b.broker.WaitForMembers(ctx, group, 0)
	}
}

// Case 23: an operator resets the group's offsets while its members run: everything is delivered again, and nothing runs.
func TestReplayToRunningMembers(t *testing.T) {
	play(t, setting{queues: 2}, func(s *story) {
		s.join("a", s.does(succeed))
		s.join("b", s.does(succeed))
		s.settle("a", "b")
		for i := range 10 {
			s.send(fmt.Sprintf("order-%d", i), inQueue(i%2))
		}
		for i := range 10 {
			s.await(acknowledged, fmt.Sprintf("order-%d", i))
		}
		s.must(s.broker.replay(s.ctx, s.group, s.topic))
		s.send("new-0", inQueue(0)) // with each of which a pull ends: the broker says of the offset with the next
		s.send("new-1", inQueue(1))
		for i := range 10 {
			s.await(rmqdedup.EventSuppressed, fmt.Sprintf("order-%d", i))
		}
		s.settle("a", "b")
		for i := range 10 {
			s.want(1, started, fmt.Sprintf("order-%d", i))
		}
	})
}

func (b *rocketMQ) replay(ctx context.Context, group, topic string) error {
	_, err := b.ask(ctx, codeResetOffset, map[string]string{"topic": topic, "group": group, "timestamp": "0", "isForce": "true"})
	return err
}

func (b *inProcess) replay(ctx context.Context, group, topic string) error {
	return b.broker.Replay(ctx, group, topic, 0)
}

// A member that consumes nothing joins while handlers run, takes the first queue with the message in it, and leaves again. The client has thrown the
// handler's success away, but DONE is written, and the message that comes again does not run.
func TestQueueIsGoneForAWhile(t *testing.T) {
	play(t, setting{queues: 2}, func(s *story) {
		gate := make(chan struct{})
		a := s.join("a", s.does(hold(gate)))
		s.settle("a", "a")
		s.send("order-1", inQueue(0))
		s.await(started, "order-1")
		leave, err := s.broker.addPhantom(s.ctx, s.group, s.topic)
		s.must(err)
		s.must(eventually(s.ctx, "the queue to be gone", func() (bool, error) {
			has := queuesOf(a.consumer.PushConsumer, s.topic)
			return !has[0] && has[1], nil
		}))
		close(gate)
		s.await(succeeded, "order-1")
		s.must(leave(s.ctx))
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}

func (b *rocketMQ) addPhantom(ctx context.Context, group, topic string) (leave func(context.Context) error, err error) {
	beat := fmt.Appendf(nil, `{"clientID":"!phantom","producerDataSet":[],"consumerDataSet":[{"groupName":%q,"consumeType":"CONSUME_PASSIVELY",
		"messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","unitMode":false,
		"subscriptionDataSet":[{"topic":%q,"subString":"*","subVersion":1,"expressionType":"TAG"}]}]}`, group, topic)
	c, err := dial(ctx, b.addr)
	if err != nil {
		return nil, err
	}
	a, err := c.call(codeHeartBeat, nil, beat)
	if err != nil || a.error() != nil {
		_ = c.Close()
		return nil, fmt.Errorf("a phantom's heart beat: %w", err)
	}
	return func(context.Context) error { return c.Close() }, nil
}

func (b *inProcess) addPhantom(ctx context.Context, group, _ string) (leave func(context.Context) error, err error) {
	return b.broker.AddPhantom(ctx, group)
}
