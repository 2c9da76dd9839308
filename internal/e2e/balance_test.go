package e2e

import (
	"context"
	"fmt"
)

// Who has which queue, at the bidding of a story.

// awaitQueues waits until the member has n queues of the topic.
func (m *member) awaitQueues(ctx context.Context, n int) error {
	return eventually(ctx, fmt.Sprintf("%s to have %d queues", m.name, n), func() (bool, error) {
		has := queuesOf(m.consumer.PushConsumer, m.s.topic)
		return len(has) == n, fmt.Errorf("it has %v", has)
	})
}

func (b *inProcess) rebalance(s *story) error { return b.broker.Rebalance(s.ctx, s.group) }

// rebalance: the real broker has members balance when one comes or goes.
func (b *rocketMQ) rebalance(s *story) error {
	leave, err := b.addPhantom(s.ctx, s.group, s.topic)
	if err != nil {
		return err
	}
	return leave(s.ctx)
}

func (b *inProcess) takeQueues(s *story, from *member) error {
	_, err := b.broker.TakeQueues(s.ctx, s.group, s.instance(from.name))
	return err
}

func (b *rocketMQ) takeQueues(s *story, from *member) error {
	var others []string
	for _, m := range s.members {
		if m != from {
			others = append(others, s.instance(m.name))
		}
	}
	for _, m := range s.members {
		m.road.show(others...)
	}
	if err := b.rebalance(s); err != nil {
		return err
	}
	return from.awaitQueues(s.ctx, 0)
}

func (b *inProcess) split(s *story) (heal func() error, err error) {
	undo, err := b.broker.Split(s.ctx, s.group)
	return func() error { return undo(s.ctx) }, err
}

func (b *rocketMQ) split(s *story) (heal func() error, err error) {
	var overs []func()
	for _, m := range s.members {
		overs = append(overs, m.road.show(s.instance(m.name)))
	}
	if err := b.rebalance(s); err != nil {
		return nil, err
	}
	for _, m := range s.members {
		if err := m.awaitQueues(s.ctx, s.set.queues); err != nil {
			return nil, err
		}
	}
	return func() error {
		for _, over := range overs {
			over()
		}
		return b.rebalance(s)
	}, nil
}
