package rmqdedup_test

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// dispatch hands what was pulled to the listener, in batches, as many at a time as there are slots.
func (q *clientQueue) dispatch() {
	m := q.m
	for {
		var msgs []*primitive.MessageExt
		select {
		case msgs = <-q.feed:
		case <-q.closed:
			return
		case <-m.dead:
			return
		case <-m.w.end:
			return
		}
		for batch := range slices.Chunk(msgs, m.w.plan.batch) {
			select {
			case m.slots[q.id.Topic] <- struct{}{}:
			case <-m.dead:
				return
			case <-m.w.end:
				return
			}
			go func() {
				q.consume(slices.Clone(batch))
				<-m.slots[q.id.Topic]
			}()
		}
	}
}

// consume is the client's consumeMessageConcurrently: one result decides for the whole batch, and what cannot be sent back runs again here.
func (q *clientQueue) consume(msgs []*primitive.MessageExt) {
	m, w := q.m, q.m.w
	for len(msgs) > 0 {
		var call *listenerCall
		w.locked(func() {
			if !q.gone() {
				prepare(msgs)
				call = m.enter(q, msgs)
			}
		})
		if call == nil {
			return
		}
		concurrent := primitive.NewConsumeConcurrentlyContext()
		concurrent.MQ = q.id
		result := m.listenTo(primitive.WithConcurrentlyCtx(m.contextOf(call), concurrent), call)
		w.locked(func() {
			m.leaveCall(call)
			if q.gone() {
				if !m.crashed() {
					w.note("%s: the answer for %v is thrown away: the queue was dropped", m.name, call)
					w.saw("answer thrown away")
				}
				msgs = nil
				return
			}
			call.level = concurrent.DelayLevelWhenNextConsume
			w.judgeConcurrentAnswer(call, result)
			msgs = q.process(call, msgs, result)
		})
		if len(msgs) > 0 && !w.wait(rerunPause, m.dead, nil) {
			return
		}
	}
}

// process acknowledges a batch or sends it back, and returns what could not be sent back. The world's mutex is held.
func (q *clientQueue) process(call *listenerCall, msgs []*primitive.MessageExt, result consumer.ConsumeResult) (failed []*primitive.MessageExt) {
	w := q.m.w
	settled := msgs
	if result == consumer.ConsumeSuccess {
		w.acknowledge(call, msgs)
	} else {
		settled = nil
		for _, msg := range msgs {
			if q.m.sendBack(sendBack{msg, call.level, call}) {
				settled = append(settled, msg)
			} else {
				msg.ReconsumeTimes++
				failed = append(failed, msg)
			}
		}
	}
	if offset := q.settle(settled); offset >= 0 {
		q.m.update(q.id, offset)
	}
	return failed
}

// clean is the client's cleanExpiredMsg: what was started longer ago than the consume timeout is sent back, though it may
// still run, and leaves the cache, so that the offset may pass it. The world's mutex is held.
func (m *groupMember) clean() {
	for _, q := range m.table {
		for range min(16, len(q.cache)) {
			msg := q.first()
			if msg == nil {
				break
			}
			started, err := strconv.ParseInt(msg.GetProperty(primitive.PropertyConsumeStartTime), 10, 64)
			if err != nil {
				break // not started yet
			}
			if time.Since(time.UnixMilli(started)) <= m.w.plan.config.ConsumeTimeout {
				break
			}
			m.w.note("%s: the cleaner sends %v back", m.name, m.w.truth(msg))
			m.w.judgeCleaned(m, msg)
			if m.sendBack(sendBack{msg, 3 + int(msg.ReconsumeTimes), nil}) {
				q.settle([]*primitive.MessageExt{msg})
			}
		}
	}
}

// contextOf is the context that the client gives the listener.
func (m *groupMember) contextOf(call *listenerCall) context.Context {
	ctx := context.WithValue(context.Background(), callContextKey{}, call)
	return primitive.WithConsumerCtx(ctx, &primitive.ConsumeMessageContext{
		ConsumerGroup: walkGroup, Msgs: call.msgs, MQ: &call.queue.id, Properties: make(map[string]string),
	})
}
