package rmqtest

import "fmt"

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
	if b.topics[r.Topic] == nil {
		return fail(TopicUnknown, fmt.Errorf("topic %s does not exist", r.Topic))
	}
	b.commit(r.Group, r.Topic, r.Queue, r.number("commitOffset"))
	return answer{}
}

// queryOffset tells a group where it stands. One that stands nowhere begins at 0, whatever its ConsumeFromWhere: the
// real broker says so too while a queue's first message is young. Of an empty queue it says OffsetUnknown, after which
// the client asks for the MaxOffset and misses what was stored in between; here it does not.
func (b *Broker) queryOffset(_ *conn, r *Request) answer {
	if b.queueOf(r.Topic, r.Queue) == nil {
		return fail(OffsetUnknown, fmt.Errorf("topic %s has no queue %d", r.Topic, r.Queue))
	}
	return offsetAnswer(b.offsets[position{r.Group, r.Topic, r.Queue}])
}

func (b *Broker) maxOffset(_ *conn, r *Request) answer {
	if q := b.queueOf(r.Topic, r.Queue); q != nil {
		return offsetAnswer(q.maxOffset())
	}
	return offsetAnswer(0)
}
