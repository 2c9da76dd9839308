package rmqtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// LoseReplies does the work of the next n requests with the code and says nothing: the client believes that it failed.
// A producer sends the message again after its timeout of 3 s (producer.WithSendMsgTimeout), with the same UNIQ_KEY.
// n < 0 means all until lifted.
func (b *Broker) LoseReplies(code Code, n int) (lift func()) {
	return b.Fault(n, Action{Silent: true}, code)
}

// LoseRequests does not do the work of the next n requests with the code and says nothing. n < 0 means all until lifted.
func (b *Broker) LoseRequests(code Code, n int) (lift func()) {
	return b.Fault(n, Action{Skip: true, Silent: true}, code)
}

// RefuseSendBacks refuses the next n send-backs: the client then sends the message to the retry topic as a new one, at
// level 3 + attempts whatever its handler wanted. Refuse Send too and it calls the handler again after 5 s without the
// broker. n < 0 means all until lifted.
func (b *Broker) RefuseSendBacks(n int) (lift func()) {
	return b.Fault(n, Refuse(SystemError), SendBack)
}

// SlowAnswers does the work of all requests with the code at once and answers after d, until lifted.
func (b *Broker) SlowAnswers(code Code, d time.Duration) (lift func()) {
	return b.Fault(-1, Action{After: Pause{For: d}}, code)
}

// CutAfter closes the client's connection in place of the answer to each of the next n requests with the code, after
// the work. What else is under way on that connection is lost with it, unlike with Disconnect.
func (b *Broker) CutAfter(code Code, n int) (lift func()) {
	return b.Fault(n, Action{Cut: true}, code)
}

// DoubleSends stores each of the next n sends twice, as a producer's or a broker's retry of its own does: two records
// that differ in their offsets alone.
func (b *Broker) DoubleSends(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubles = max(n, 0)
}

// Duplicate stores a second copy of a stored message at the end of its queue, at once.
func (b *Broker) Duplicate(m Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.log[m.CommitLogOffset] == nil || b.queueOf(m.Topic, m.QueueID) == nil {
		return fmt.Errorf("rmqtest: duplicate: no message %s in queue %d of %q", m.OffsetID(), m.QueueID, m.Topic)
	}
	twin := b.log[m.CommitLogOffset].clone()
	b.append(&twin, m.Topic, m.QueueID)
	return nil
}

// LoseCommits loses a group's progress from here on, until hear is called: whoever takes over one of its queues begins
// at the offset of before.
func (b *Broker) LoseCommits(group string) (hear func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deaf[group]++
	done := false
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !done {
			done = true
			b.deaf[group]--
		}
	}
}

// SetOffset sets a group's offset in all queues of a topic; see Replay for one whose consumers run.
func (b *Broker) SetOffset(group, topic string, offset int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, q := range b.topics[topic] {
		b.offsets[position{group, topic, id}] = min(max(offset, 0), q.maxOffset())
	}
	b.changed()
}

// Disconnect closes the connections of a client, named by its client ID or instance name, as a network would, but lets
// its held pulls end first: it is back after 3 s instead of 30. All its memberships end until then, and the others
// balance. A client that has no connection is an error.
func (b *Broker) Disconnect(client string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := false
	for c := range b.server.conns {
		if isNamed(c.client, client) {
			c.hangUp()
			found = true
		}
	}
	if !found {
		return fmt.Errorf("rmqtest: disconnect: no client %q is connected", client)
	}
	return nil
}

// A Restart says how a broker goes down.
type Restart struct {
	// Crash cuts what is under way. Default: held pulls end first, so that consumers are back after 3 s instead of 30.
	Crash bool
	// LoseOffsets forgets the progress that groups made since Start or the last restart.
	LoseOffsets bool
}

// Restart stops the broker and starts it again at the same address. Topics, messages, delays and, unless how says
// otherwise, offsets stay; members and locks are forgotten, as are the connections. Consumers come back by themselves,
// with their next pull. What a producer sent just before and has no reply to is kept by a restart after LoseReplies, and
// lost by one after LoseRequests. ctx limits the wait for the address to be free.
func (b *Broker) Restart(ctx context.Context, how Restart) error {
	b.mu.Lock()
	s := b.server
	b.mu.Unlock()
	if err := s.stop(!how.Crash); err != nil {
		return err
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	if how.LoseOffsets {
		b.offsets = maps.Clone(b.saved)
	}
	b.saved = maps.Clone(b.offsets)
	clear(b.locks)
	b.changed()
	b.mu.Unlock()
	for {
		err := b.listen(b.Addr())
		if err == nil || errors.Is(err, ErrClosed) {
			return err
		}
		if !(Pause{For: 20 * time.Millisecond}).wait(ctx) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
