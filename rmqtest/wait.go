package rmqtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrClosed is what a wait ends with when the broker is closed meanwhile.
var ErrClosed = errors.New("rmqtest: the broker is closed")

// Wait returns when cond is true. It asks at once and whenever something has changed in the broker, which cond may
// inspect by its other methods. what completes the sentence "waiting for …" in the error when ctx ends first.
func (b *Broker) Wait(ctx context.Context, what string, cond func() bool) error {
	for {
		b.mu.Lock()
		change, closed := b.change, b.closed
		b.mu.Unlock()
		if cond() {
			return nil
		}
		if closed {
			return fmt.Errorf("%w while waiting for %s", ErrClosed, what)
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("rmqtest: waiting for %s: %w", what, ctx.Err())
		}
	}
}

// waitLocked is Wait with b.mu held while cond is asked.
func (b *Broker) waitLocked(ctx context.Context, what string, cond func() bool) error {
	return b.Wait(ctx, what, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return cond()
	})
}

// WaitForMessages returns what a topic holds when that is n messages or more. Use it with RetryTopic and
// DeadLetterTopic too.
func (b *Broker) WaitForMessages(ctx context.Context, topic string, n int) ([]Message, error) {
	err := b.waitLocked(ctx, fmt.Sprintf("%d messages in %s", n, topic), func() bool {
		held := 0
		for _, q := range b.topics[topic] {
			held += len(q.records)
		}
		return held >= n
	})
	return b.Messages(topic), err
}

// WaitForDelayed returns the messages whose time has not come when there are n or more.
func (b *Broker) WaitForDelayed(ctx context.Context, n int) (all []Delayed, err error) {
	err = b.waitLocked(ctx, fmt.Sprintf("%d delayed messages", n), func() bool {
		if len(b.schedule) < n {
			return false
		}
		all = b.delayed()
		return true
	})
	return all, err
}

// WaitForDeliveries returns a group's deliveries when there are n or more.
func (b *Broker) WaitForDeliveries(ctx context.Context, group string, n int) ([]Delivery, error) {
	err := b.waitLocked(ctx, fmt.Sprintf("%d deliveries to %s", n, group), func() bool { return len(b.deliveries[group]) >= n })
	return b.Deliveries(group), err
}

// WaitForMembers returns when a group has exactly n members.
func (b *Broker) WaitForMembers(ctx context.Context, group string, n int) error {
	return b.Wait(ctx, fmt.Sprintf("%d members of %s", n, group), func() bool { return len(b.Members(group)) == n })
}

// WaitForPulls returns when every queue of a topic is being waited on by a group, or by each member of a broadcasting
// one: its consumers are ready, and have been handed all that there is.
func (b *Broker) WaitForPulls(ctx context.Context, group, topic string) error {
	type pulled struct {
		queueID int
		by      *conn // nil unless broadcasting
	}
	return b.waitLocked(ctx, fmt.Sprintf("%s to pull all queues of %s", group, topic), func() bool {
		want, each := len(b.topics[topic]), false
		for _, m := range b.members[group] {
			if each = m.broadcasting; each {
				want = len(b.topics[topic]) * len(b.members[group])
			}
		}
		has := make(map[pulled]bool)
		for p := range b.held {
			if p.group == group && p.topic == topic {
				one := pulled{queueID: p.queueID}
				if each {
					one.by = p.conn
				}
				has[one] = true
			}
		}
		return want > 0 && len(has) >= want
	})
}

// WaitForSettled returns when a group is through with all that was sent to a topic so far: it has committed what the
// topic and its own retry topic hold, and no message of either is delayed. What failed for good is in DeadLetterTopic
// then. A consumer commits with its next pull; see Config.LongPoll to have that soon. A broadcasting group commits
// nothing here, and never settles.
func (b *Broker) WaitForSettled(ctx context.Context, group, topic string) error {
	retries := RetryTopic(group)
	return b.waitLocked(ctx, fmt.Sprintf("%s to settle all of %s", group, topic), func() bool {
		return b.lag(group, topic) == 0 && b.lag(group, retries) == 0 &&
			!slices.ContainsFunc(b.schedule, func(d delayed) bool { return d.Topic == topic || d.Topic == retries })
	})
}

// WaitForConsumed returns when a group has committed all that a topic holds, its retries not included, which are a
// topic of their own: see WaitForSettled.
func (b *Broker) WaitForConsumed(ctx context.Context, group, topic string) error {
	return b.Wait(ctx, fmt.Sprintf("%s to commit all of %s", group, topic), func() bool { return b.Lag(group, topic) == 0 })
}

// WaitForOffset returns when a group has committed exactly this offset in a queue.
func (b *Broker) WaitForOffset(ctx context.Context, group, topic string, queueID int, offset int64) error {
	return b.Wait(ctx, fmt.Sprintf("%s to commit %d in queue %d of %s", group, offset, queueID, topic), func() bool {
		got, ok := b.Offset(group, topic, queueID)
		return ok && got == offset
	})
}

// WaitForRequests returns when n requests with a code, or more, came since Start.
func (b *Broker) WaitForRequests(ctx context.Context, code Code, n int) error {
	return b.Wait(ctx, fmt.Sprintf("%d requests %v", n, code), func() bool { return b.RequestCount(code) >= n })
}
