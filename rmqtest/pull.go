package rmqtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Bits of a pull's sysFlag.
const (
	pullCommits = 1 // commitOffset is valid
	pullWaits   = 2 // the broker may hold the pull
)

// maxPullBytes is the most that an answer of more than one record takes.
const maxPullBytes = 256 << 10

// A pulling is a pull at work. While it is held it stands in b.held.
type pulling struct {
	conn         *conn
	group, topic string
	queueID      int
	offset       int64
	count        int
	wait         time.Duration // how long it may be held
}

// pull answers with the next messages of a queue, or waits for them.
func (b *Broker) pull(c *conn, r *Request) answer {
	p := &pulling{
		conn: c, group: r.Group, topic: r.Topic, queueID: r.Queue, offset: r.number("queueOffset"),
		count: min(max(int(r.number("maxMsgNums")), 1), maxQueues),
	}
	sysFlag := r.number("sysFlag")
	if sysFlag&pullCommits != 0 {
		b.commit(p.group, p.topic, p.queueID, r.number("commitOffset"))
	}
	if sysFlag&pullWaits != 0 {
		suspend := min(max(r.number("suspendTimeoutMillis"), 0), time.Minute.Milliseconds())
		p.wait = time.Duration(suspend) * time.Millisecond
		if b.cfg.LongPoll > 0 {
			p.wait = min(p.wait, b.cfg.LongPoll)
		}
	}
	b.askStranger(c, p.group)
	res, done := b.tryPull(p)
	if done || p.wait == 0 {
		return res
	}
	return answer{hold: func() answer { return b.hold(c.ctx, p) }}
}

// hold waits until the pull finds something, its time is over, it is nudged or its connection ends.
func (b *Broker) hold(ctx context.Context, p *pulling) answer {
	over := time.NewTimer(p.wait)
	defer over.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	nudge := make(chan struct{})
	b.held[p] = nudge
	b.changed()
	defer func() {
		delete(b.held, p)
		b.changed()
	}()
	for last := false; ; {
		res, done := b.tryPull(p)
		if done || last {
			return res
		}
		arrived := b.queueOf(p.topic, p.queueID).arrived
		b.mu.Unlock()

		select {
		case <-arrived:
		case <-over.C:
			last = true
		case <-nudge:
			last = true
		case <-ctx.Done():
		}
		b.mu.Lock()
		if ctx.Err() != nil {
			// Said in so many words, this sends the consumer to a new connection after 3 s; silence costs it 30 s.
			return fail(Unavailable, errors.New("the connection is being closed"))
		}
	}
}

// tryPull looks once; done means that its answer must not wait. b.mu is held.
func (b *Broker) tryPull(p *pulling) (res answer, done bool) {
	if b.topics[p.topic] == nil {
		return fail(TopicUnknown, fmt.Errorf("topic %s does not exist", p.topic)), true
	}
	q := b.queueOf(p.topic, p.queueID)
	if q == nil {
		return fail(InvalidParameter, fmt.Errorf("topic %s has no queue %d", p.topic, p.queueID)), true
	}
	wanted, err := b.filter(p.group, p.topic)
	if err != nil {
		return fail(SystemError, err), true
	}
	if p.offset < 0 || p.offset > q.maxOffset() {
		next := min(max(p.offset, 0), q.maxOffset())
		return answer{status: PullOutOfRange, fields: pullFields(q, next)}, true
	}
	var (
		body  []byte
		found []*Message
		next  = p.offset
	)
	for ; next < q.maxOffset() && len(found) < p.count; next++ {
		m := q.records[next]
		if !wanted(m) {
			continue
		}
		if len(found) > 0 && len(body)+m.size() > maxPullBytes {
			break
		}
		body = appendRecord(body, m)
		found = append(found, m)
	}
	switch {
	case len(found) > 0:
		sent := func() { b.delivered(p, found) }
		return answer{status: OK, fields: pullFields(q, next), body: body, sent: sent}, true
	case next > p.offset:
		return answer{status: PullNoMatch, fields: pullFields(q, next)}, true
	}
	return answer{status: PullNothing, fields: pullFields(q, next)}, false
}

// pullFields are in every answer to a pull; the client takes a missing one for 0 and begins again there.
func pullFields(q *queue, next int64) map[string]string {
	return map[string]string{
		"nextBeginOffset": strconv.FormatInt(next, 10), "minOffset": "0",
		"maxOffset": strconv.FormatInt(q.maxOffset(), 10), "suggestWhichBrokerId": "0",
	}
}

// delivered notes what leaves with a pull's answer. b.mu is held.
func (b *Broker) delivered(p *pulling, found []*Message) {
	for _, m := range found {
		b.deliveries[p.group] = append(b.deliveries[p.group], Delivery{
			Group: p.group, Client: p.conn.client, Topic: m.Topic, QueueID: m.QueueID, QueueOffset: m.QueueOffset,
			ID: m.FirstID(), ReconsumeTimes: m.ReconsumeTimes, Time: time.Now(),
		})
	}
}

// nudge ends the wait of a group's held pulls. Those of queues that a balance took away do not come again: without it,
// they would carry one more answer off to where it is dropped. b.mu is held.
func (b *Broker) nudge(group string) {
	for p, ch := range b.held {
		if p.group == group && ch != nil {
			close(ch)
			b.held[p] = nil
		}
	}
}
