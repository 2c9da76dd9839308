package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A member is one consumer of the story's group, a process of its own as far as the broker can tell.
type member struct {
	s        *story
	name     string
	dedup    *rmqdedup.Dedup // nil for one that uses the client alone
	consumer carefulConsumer
	road     road // where it has one of its own
	gone     bool
}

// A role is what a member is made from.
type role struct {
	rmqdedup.Config
	road    road
	group   string
	store   rmqdedup.Store
	options []consumer.Option
}

// lease is that of the stories: retries wait for whole seconds, the first for three.
const lease = 3 * time.Second

// configFor is the one that members have unless their story changes it.
func configFor(mode rmqdedup.Mode, levels []time.Duration, o rmqdedup.Observer) rmqdedup.Config {
	return rmqdedup.Config{
		Key: rmqdedup.Keys, Lease: lease, Mode: mode, DelayLevels: levels,
		StorageTime: 10 * time.Minute, Retention: 10 * time.Minute, SuspendPause: 100 * time.Millisecond, Observer: o,
	}
}

// join starts a member whose listener is wrapped by the library.
func (s *story) join(name string, h rmqdedup.Handler, change ...func(*role)) *member {
	s.Helper()
	r := role{
		Config: configFor(s.set.mode, s.broker.delayLevels(), s.journal.observer(name)),
		road:   road{names: s.broker.nameServer()}, group: s.group, store: s.store,
	}
	for _, f := range change {
		f(&r)
	}
	if ns, bare, found := strings.Cut(r.group, "%"); found {
		r.Namespace, r.group = ns, bare
	}
	d, err := rmqdedup.New(r.store, r.group, r.Config)
	s.must(err)
	m := s.start(r.road.names, name, d.Wrap(s.journal.handler(name, h)), append(d.ConsumerOptions(), r.options...)...)
	m.dedup, m.road = d, r.road
	return m
}

// by has a member take a road.
func by(r road) func(*role) { return func(role *role) { role.road = r } }

// listen starts a member that uses the client alone.
func (s *story) listen(name string, h rmqdedup.Handler, options ...consumer.Option) *member {
	s.Helper()
	options = append([]consumer.Option{
		consumer.WithGroupName(s.group), consumer.WithConsumerOrder(s.set.mode == rmqdedup.Ordered),
	}, options...)
	return s.start(s.broker.nameServer(), name, s.journal.handler(name, h), options...)
}

func (s *story) start(names, name string, listener rmqdedup.Handler, options ...consumer.Option) *member {
	s.Helper()
	c, err := newConsumer(names, s.instance(name), options...)
	s.must(err)
	s.must(c.Subscribe(s.topic[strings.LastIndex(s.topic, "%")+1:], consumer.MessageSelector{}, listener))
	s.must(c.Start())
	m := &member{s: s, name: name, consumer: carefulConsumer{c}}
	s.members = append(s.members, m)
	return m
}

func newConsumer(names, instance string, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	return rocketmq.NewPushConsumer(append(options,
		consumer.WithNameServer(primitive.NamesrvAddr{names}),
		consumer.WithInstance(instance),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)...)
}

// instance is a member's instance name, by which the broker and other clients of this process tell it from others. Queues are handed out in
// the order of these names. That matters where one comes soon after another has gone: a real broker that takes a heart beat in just when its sender's
// connection closes, or after it has signed off, counts it among the members for two minutes, and what is handed out to it is read by nobody.
func (s *story) instance(member string) string { return s.topic + "-" + member }

// shutdown shuts a member down as its users do.
func (m *member) shutdown(ctx context.Context) error {
	m.gone = true
	if m.dedup == nil {
		return m.consumer.Shutdown()
	}
	return m.dedup.Shutdown(ctx, m.consumer)
}

// leave is a shutdown in which nothing is to go wrong, unless the member is gone already.
func (m *member) leave(ctx context.Context) {
	m.s.Helper()
	if m.gone {
		return
	}
	if err := m.shutdown(ctx); err != nil {
		m.s.Errorf("%s: shutdown: %v", m.name, err)
	}
}

// leaveAll shuts down all members that there are.
func (s *story) leaveAll(ctx context.Context) {
	s.Helper()
	for _, m := range s.members {
		m.leave(ctx)
	}
}

// awaitAll waits until the member has acknowledged so many messages.
func (m *member) awaitAll(n int) *member {
	m.s.Helper()
	m.s.await(acknowledged, "", n)
	return m
}

// settle waits until each queue of the topic is read by the member that stands at its place, and by no other: while a queue moves its old
// owner reads it too. What members of other processes read is learnt from messages of its own.
func (s *story) settle(owners ...string) {
	s.Helper()
	for _, m := range s.members {
		if m.gone {
			continue
		}
		s.must(eventually(s.ctx, m.name+" to have its queues, and no others", func() (bool, error) {
			has := queuesOf(m.consumer.PushConsumer, s.topic)
			for queue, owner := range owners {
				if has[queue] != (owner == m.name) {
					return false, fmt.Errorf("it has %v", has)
				}
			}
			return true, nil
		}))
	}
	for queue, want := range owners {
		for s.probe(queue) != want {
		}
	}
}

// probe sends a message to a queue, and returns who has read it.
func (s *story) probe(queue int) (member string) {
	s.Helper()
	s.probes++
	name := fmt.Sprintf("probe-%d", s.probes)
	s.send(name, inQueue(queue))
	s.await(succeeded, name)
	return s.journal.all(succeeded, name)[0].member
}

// An act is what a handler does with one message.
type act func(ctx context.Context, m *primitive.MessageExt) (consumer.ConsumeResult, error)

// does returns a handler that does the nth act at the nth run of a message, and the last one from then on.
func (s *story) does(acts ...act) rmqdedup.Handler {
	return func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range msgs {
			run := len(s.journal.all(started, nameOf(&m.Message))) // this one included
			if result, err := acts[min(run, len(acts))-1](ctx, m); result != consumer.ConsumeSuccess {
				return result, err
			}
		}
		return consumer.ConsumeSuccess, nil
	}
}

// special are the handlers of some messages.
type special map[string]rmqdedup.Handler

// only lets some messages have a handler of their own.
func (s *story) only(special special, others rmqdedup.Handler) rmqdedup.Handler {
	return func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range msgs {
			h := others
			if own := special[nameOf(&m.Message)]; own != nil {
				h = own
			}
			if result, err := h(ctx, m); result != consumer.ConsumeSuccess {
				return result, err
			}
		}
		return consumer.ConsumeSuccess, nil
	}
}

func succeed(context.Context, *primitive.MessageExt) (consumer.ConsumeResult, error) {
	return consumer.ConsumeSuccess, nil
}

// fail fails, and asks for the message to come again soon.
func fail(ctx context.Context, _ *primitive.MessageExt) (consumer.ConsumeResult, error) {
	again(ctx)
	return consumer.ConsumeRetryLater, errors.New("failed as the story has it")
}

// again makes a retry come soon: at the lowest delay level, or after a short pause of the queue.
func again(ctx context.Context) {
	if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
		c.DelayLevelWhenNextConsume = 1
	}
	if c, ok := primitive.GetOrderlyCtx(ctx); ok {
		c.SuspendCurrentQueueTimeMillis = 50
	}
}

func panics(ctx context.Context, _ *primitive.MessageExt) (consumer.ConsumeResult, error) {
	again(ctx)
	panic("as the story has it")
}

// then does one act after the other, whatever the first one's result.
func then(first, second act) act {
	return func(ctx context.Context, m *primitive.MessageExt) (consumer.ConsumeResult, error) {
		_, _ = first(ctx, m)
		return second(ctx, m)
	}
}

func succeedWithAnError(context.Context, *primitive.MessageExt) (consumer.ConsumeResult, error) {
	return consumer.ConsumeSuccess, errors.New("to be logged, no more")
}

// deaf succeeds when the gate is opened, and does not heed its context.
func deaf(gate <-chan struct{}) act {
	return func(context.Context, *primitive.MessageExt) (consumer.ConsumeResult, error) {
		<-gate
		return consumer.ConsumeSuccess, nil
	}
}

// hold succeeds when the gate is opened, and fails if its context is cancelled first.
func hold(gate <-chan struct{}) act {
	return func(ctx context.Context, _ *primitive.MessageExt) (consumer.ConsumeResult, error) {
		select {
		case <-gate:
			return consumer.ConsumeSuccess, nil
		case <-ctx.Done():
			return consumer.ConsumeRetryLater, context.Cause(ctx)
		}
	}
}
