package rmqdedup_test

import (
	"math"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// consumeOrderly is the client's consumeMessageOrderly: one call of the listener at a time, in order, and only under the queue's lock.
func (q *clientQueue) consumeOrderly() {
	m, w := q.m, q.m.w
	turn := m.turn(q.id)
	for {
		select {
		case turn <- struct{}{}:
		case <-q.closed:
			return
		case <-m.dead:
			return
		case <-w.end:
			return
		}
		pause, more := q.consumeBatchInOrder()
		<-turn
		if !more || (pause > 0 && !w.wait(pause, m.dead, q.closed)) {
			return
		}
	}
}

// turn is the member's own lock on a queue, which outlives the queue's being dropped and taken again.
func (m *groupMember) turn(id primitive.MessageQueue) chan struct{} {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.turns[id] == nil {
		m.turns[id] = make(chan struct{}, 1)
	}
	return m.turns[id]
}

// consumeBatchInOrder takes the next messages, has them consumed and does what the answer says. It returns the pause that is due, and
// whether there is more to come.
func (q *clientQueue) consumeBatchInOrder() (pause time.Duration, more bool) {
	m, w := q.m, q.m.w
	if !q.awaitLock() {
		return pullPause, true
	}
	q.awaitMessages()
	var msgs []*primitive.MessageExt
	var call *listenerCall
	var gone bool
	w.locked(func() {
		if gone = q.gone(); gone {
			return
		}
		if msgs = q.take(w.plan.batch); len(msgs) > 0 {
			prepare(msgs)
			call = m.enter(q, msgs)
		}
	})
	if call == nil {
		return 0, !gone && !w.ended()
	}
	ordered := primitive.NewConsumeOrderlyContext()
	ordered.MQ = q.id
	result := m.listenTo(primitive.WithOrderlyCtx(m.contextOf(call), ordered), call)
	w.locked(func() {
		m.leaveCall(call)
		if m.crashed() {
			return
		}
		w.judgeOrderedAnswer(call, result, ordered.SuspendCurrentQueueTimeMillis)
		pause = q.processInOrder(call, msgs, result, time.Duration(ordered.SuspendCurrentQueueTimeMillis)*time.Millisecond)
	})
	return pause, true
}

// awaitLock says whether the member has the queue's lock, and tries to get it otherwise.
func (q *clientQueue) awaitLock() (locked bool) {
	q.m.w.locked(func() {
		if q.locked && time.Since(q.lockedAt) <= lockExpires {
			locked = true
		} else if !q.gone() && q.m.w.broker.lock(q.id, q.m) {
			q.locked, q.lockedAt = true, time.Now()
			locked = true
		}
	})
	return locked
}

// awaitMessages waits for a while until there is something to take.
func (q *clientQueue) awaitMessages() {
	empty := false
	q.m.w.locked(func() { empty = len(q.cache) == 0 && !q.gone() })
	if empty {
		q.m.w.wait(takePause, q.arrived, q.closed)
	}
}

// take takes the first messages out of the cache; they are being consumed now. The world's mutex is held.
func (q *clientQueue) take(n int) (msgs []*primitive.MessageExt) {
	for first := q.first(); first != nil && len(msgs) < n; first = q.first() {
		msgs = append(msgs, first)
		q.consuming[first.QueueOffset] = first
		delete(q.cache, first.QueueOffset)
	}
	return msgs
}

// processInOrder does what the client does with an answer. It looks whether the queue was dropped only when it commits. The world's mutex is held.
func (q *clientQueue) processInOrder(call *listenerCall, msgs []*primitive.MessageExt, result consumer.ConsumeResult, suspend time.Duration) (pause time.Duration) {
	commit := false
	switch result {
	case consumer.ConsumeSuccess:
		commit = true
	case consumer.SuspendCurrentQueueAMoment:
		if q.countAttempt(call, msgs) {
			for _, m := range msgs {
				delete(q.consuming, m.QueueOffset)
				q.cache[m.QueueOffset] = m
			}
			pause = suspend
		} else {
			commit = true
		}
	default:
		// Nothing happens: the messages stay where they are, and the next commit passes them.
	}
	if !commit {
		return pause
	}
	offset := int64(-1)
	for o := range q.consuming {
		offset = max(offset, o+1)
	}
	q.count -= len(q.consuming)
	clear(q.consuming)
	if q.dropped {
		q.m.w.note("%s: the answer for %v is thrown away: the queue was dropped", q.m.name, call)
		q.m.w.saw("answer thrown away")
		return 0
	}
	if result == consumer.ConsumeSuccess {
		q.m.w.acknowledge(call, msgs)
	}
	if offset > 0 {
		q.m.update(q.id, offset)
	}
	return 0
}

// countAttempt is the client's checkReconsumeTimes: it says whether the batch is to run again. What has used up its attempts is sent to
// the dead-letter queue, dropped queue or not.
func (q *clientQueue) countAttempt(call *listenerCall, msgs []*primitive.MessageExt) (again bool) {
	limit := int32(math.MaxInt32)
	if n := q.m.w.plan.retries(); n >= 0 {
		limit = n
	}
	for _, m := range slices.Clone(msgs) {
		if m.ReconsumeTimes > limit && q.m.sendBack(sendBack{m, -1, call}) {
			continue
		}
		m.ReconsumeTimes++
		again = true
	}
	return again
}
