package rmqtest

import (
	"fmt"
	"slices"
	"time"
)

// A position is one group's place in one queue.
type position struct {
	group, topic string
	queueID      int
}

// commit stores a group's progress. It may go back: a client's last word is taken. b.mu is held.
func (b *Broker) commit(group, topic string, queueID int, offset int64) {
	if b.deaf[group] > 0 {
		return
	}
	at := position{group, topic, queueID}
	if offset < 0 { // a client that has no offset says -1
		delete(b.offsets, at)
	} else {
		b.offsets[at] = offset
	}
	b.changed()
}

func (b *Broker) commitOffset(_ *conn, r *Request) answer {
	a := fields{values: r.Fields}
	group, offset := a.text("consumerGroup"), a.number("commitOffset")
	topic, queueID := a.queue()
	if a.err != nil {
		return fail(SystemError, a.err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics[topic] == nil {
		return fail(TopicUnknown, fmt.Errorf("topic %s does not exist", topic))
	}
	b.commit(group, topic, queueID, offset)
	return answer{}
}

// queryOffset tells a group where it stands. One that stands nowhere begins at 0, whatever its ConsumeFromWhere: the
// real broker says so too while a queue's first message is young. Of an empty queue it says OffsetUnknown, after which
// the client asks for the MaxOffset and misses what was stored in between; here it does not.
func (b *Broker) queryOffset(_ *conn, r *Request) answer {
	a := fields{values: r.Fields}
	group := a.text("consumerGroup")
	topic, queueID := a.queue()
	if a.err != nil {
		return fail(SystemError, a.err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if offset, ok := b.offsets[position{group, topic, queueID}]; ok {
		return offsetAnswer(offset)
	}
	if q := b.queueOf(topic, queueID); q != nil && !b.cfg.HonourConsumeFrom {
		return offsetAnswer(0)
	}
	return fail(OffsetUnknown, fmt.Errorf("group %s has no offset in queue %d of %s", group, queueID, topic))
}

func (b *Broker) minOffset(_ *conn, r *Request) answer {
	return b.searchOffset(r, func(*queue) int64 { return 0 })
}

func (b *Broker) maxOffset(_ *conn, r *Request) answer {
	return b.searchOffset(r, (*queue).maxOffset)
}

func (b *Broker) offsetByTime(_ *conn, r *Request) answer {
	a := fields{values: r.Fields}
	since := time.UnixMilli(a.number("timestamp"))
	if a.err != nil {
		return fail(SystemError, a.err)
	}
	return b.searchOffset(r, func(q *queue) int64 {
		first := slices.IndexFunc(q.records, func(m *Message) bool { return m != nil && !m.StoreTime.Before(since) })
		if first < 0 {
			return q.maxOffset()
		}
		return int64(first)
	})
}

func (b *Broker) searchOffset(r *Request, search func(*queue) int64) answer {
	a := fields{values: r.Fields}
	topic, queueID := a.queue()
	if a.err != nil {
		return fail(SystemError, a.err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if q := b.queueOf(topic, queueID); q != nil {
		return offsetAnswer(search(q))
	}
	return offsetAnswer(0)
}
