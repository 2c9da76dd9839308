package rmqdedup_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A groupMember is one process of the group: a wrapper, and the client's push consumer as far as it decides what reaches the listener and what
// becomes of the answer. It is written after rocketmq-client-go, its oddities included.
type groupMember struct {
	w      *world
	name   string
	lease  time.Duration
	dedup  *rmqdedup.Dedup
	listen rmqdedup.Handler

	dead  chan struct{} // closed when it crashes: nothing of it has an effect from then on
	stop  chan struct{} // closed when its consumer is shut down
	again chan struct{} // the broker says: balance now

	// Guarded by the world's mutex.
	leaving bool // it is being shut down
	down    bool // its consumer is shut down
	table   map[primitive.MessageQueue]*clientQueue
	offsets map[primitive.MessageQueue]int64         // not yet committed
	slots   map[string]chan struct{}                 // bounds the listener's calls, a topic
	turns   map[primitive.MessageQueue]chan struct{} // the ordered consumer's lock on a queue
	calls   map[*primitive.MessageExt]*listenerCall  // which call has the message now

	watch memberWatch
}

// join starts a member.
func (w *world) join() *groupMember {
	w.mu.Lock()
	m := &groupMember{
		w: w, name: fmt.Sprintf("member-%d", len(w.members)+1),
		dead: make(chan struct{}), stop: make(chan struct{}), again: make(chan struct{}, 1),
		table: make(map[primitive.MessageQueue]*clientQueue), offsets: make(map[primitive.MessageQueue]int64),
		slots: make(map[string]chan struct{}), turns: make(map[primitive.MessageQueue]chan struct{}),
		calls: make(map[*primitive.MessageExt]*listenerCall),
	}
	m.watch.init()
	for _, topic := range []string{walkTopic, retryTopic} {
		m.slots[topic] = make(chan struct{}, w.plan.slots)
	}
	w.members = append(w.members, m)
	w.broker.listed[m] = true
	w.mu.Unlock()

	m.lease = pick(w.plan.roll("lease", m.name), w.plan.leases...)
	cfg := w.plan.config
	cfg.Lease = m.lease
	cfg.Observer = &memberObserver{m: m}
	dedup, err := rmqdedup.New(rmqdedup.Intercept(w.ledger.store, m.wire), walkGroup, cfg)
	if err != nil {
		panic(err)
	}
	m.dedup, m.listen = dedup, dedup.Wrap(m.handle)
	w.note("* %s joins", m.name)

	w.tellAll()
	go m.every(20*time.Second, m.again, m.balance)
	go m.every(5*time.Second, nil, m.persistAll)
	if w.plan.config.Mode == rmqdedup.Ordered {
		go m.every(20*time.Second, nil, m.lockAll)
	} else {
		go m.every(w.plan.config.ConsumeTimeout, nil, m.clean)
	}
	return m
}

// every calls f again and again while m lives.
func (m *groupMember) every(interval time.Duration, now <-chan struct{}, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-now:
		case <-m.stop:
			return
		case <-m.dead:
			return
		case <-m.w.end:
			return
		}
		m.w.locked(func() {
			if !m.down && !m.crashed() {
				f()
			}
		})
	}
}

func (m *groupMember) crashed() bool {
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

// crash ends the process between one instruction and the next. Its goroutines go on in the bubble, but nothing that they do
// reaches anybody.
func (m *groupMember) crash() {
	m.w.locked(func() {
		close(m.dead)
		m.w.note("* %s crashes", m.name)
		m.w.saw("member crashed")
		m.w.endRunsOf(m)
		m.w.unlist(m)
	})
}

// unlist lets the broker notice that a member has gone. Its locks stay until they expire.
func (w *world) unlist(m *groupMember) {
	time.AfterFunc(w.plan.roll("unlist", m.name).span(0, 30*time.Second), func() {
		w.locked(func() { delete(w.broker.listed, m) })
		w.tellAll()
	})
}

// leave shuts the member down as the documentation says, with that much time. It may instead shut down the consumer first, and the wrapper after it.
func (m *groupMember) leave(allowed time.Duration, consumerFirst bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), allowed)
	defer cancel()
	m.w.note("* %s is shut down, with %v to do it", m.name, allowed)
	m.w.locked(func() {
		m.leaving = true
		m.watch.drainedAt, m.watch.drainUntil = time.Now(), time.Now().Add(allowed)
	})
	began := time.Now()
	var err error
	if consumerFirst {
		_ = m.Shutdown()
		err = m.dedup.Close(ctx)
	} else {
		err = m.dedup.Shutdown(ctx, m)
	}
	m.w.locked(func() {
		m.leaving = false
		m.w.note("* %s has been shut down: %v", m.name, err)
		m.w.judgeShutdown(m, began, allowed, err)
	})
	return err
}

// Shutdown is the consumer's: it drops its queues, so that answers still to come are thrown away, and commits its offsets.
func (m *groupMember) Shutdown() error {
	m.w.locked(func() {
		if m.crashed() || m.down {
			return
		}
		m.down = true
		m.watch.downAt = time.Now()
		m.w.note("%s: the consumer is shut down", m.name)
		close(m.stop)
		var all []primitive.MessageQueue
		for id, q := range m.table {
			if m.w.plan.config.Mode == rmqdedup.Ordered {
				m.w.broker.unlock(id, m)
			}
			q.drop()
			all = append(all, id)
		}
		m.persist(all...)
		delete(m.w.broker.listed, m)
	})
	m.w.tellAll()
	return nil
}

// tellAll makes every member balance, each when it hears of the change.
func (w *world) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, m := range w.members {
		delay := w.plan.roll("tell", i, len(w.members), len(w.broker.listed)).span(0, 3*time.Second)
		time.AfterFunc(delay, func() {
			select {
			case m.again <- struct{}{}:
			default:
			}
		})
	}
}

// balance takes the queues that are this member's by its own reckoning, and drops the others. Members reckon at different
// times, so for a while a queue may be nobody's, or that of two.
func (m *groupMember) balance() {
	var listed []*groupMember
	for _, other := range m.w.members {
		if m.w.broker.listed[other] {
			listed = append(listed, other)
		}
	}
	at := slices.Index(listed, m)
	topics := []string{walkTopic, retryTopic}
	for _, topic := range topics {
		var mine []primitive.MessageQueue
		for i, q := range m.w.broker.queuesOf(topic) {
			if at >= 0 && i%len(listed) == at {
				mine = append(mine, q)
			}
		}
		m.assign(topic, mine)
	}
}

func (m *groupMember) assign(topic string, mine []primitive.MessageQueue) {
	for id, q := range m.table {
		if id.Topic == topic && !slices.Contains(mine, id) {
			m.w.note("%s drops queue %s/%d", m.name, id.Topic, id.QueueId)
			m.remove(id, q)
		}
	}
	for _, id := range mine {
		if m.table[id] != nil || m.w.plan.config.Mode == rmqdedup.Ordered && !m.w.broker.lock(id, m) {
			continue
		}
		q := newClientQueue(m, id)
		q.next = m.w.broker.queues[id].committed
		delete(m.offsets, id)
		m.table[id] = q
		m.w.note("%s takes queue %s/%d, at offset %d", m.name, id.Topic, id.QueueId, q.next)
		q.start()
	}
}

// remove drops one queue. Committing its offset makes the client forget those of all its other queues.
func (m *groupMember) remove(id primitive.MessageQueue, q *clientQueue) {
	q.drop()
	m.persist(id)
	delete(m.offsets, id)
	delete(m.table, id)
}

// persist commits the offsets of some queues, and forgets those of all others.
func (m *groupMember) persist(queues ...primitive.MessageQueue) {
	if len(queues) == 0 {
		return
	}
	for id, offset := range m.offsets {
		if !slices.Contains(queues, id) {
			delete(m.offsets, id)
			continue
		}
		m.w.broker.commit(id, offset)
	}
}

func (m *groupMember) persistAll() {
	var all []primitive.MessageQueue
	for id := range m.table {
		all = append(all, id)
	}
	m.persist(all...)
}

// update notes how far a queue has been consumed.
func (m *groupMember) update(id primitive.MessageQueue, offset int64) {
	if old, known := m.offsets[id]; !known || old < offset {
		m.offsets[id] = offset
	}
}

// lockAll renews the locks of an ordered consumer.
func (m *groupMember) lockAll() {
	for id, q := range m.table {
		q.locked, q.lockedAt = m.w.broker.lock(id, m), time.Now()
	}
}

// sendBack asks the broker to deliver a message again: as it should be done, then as a normal message. It says whether either worked.
func (m *groupMember) sendBack(back sendBack) bool {
	w := m.w
	switch reached := w.sendBackReaches(m, back.message); reached {
	case backRefused:
		w.note("%s cannot send %v back", m.name, w.truth(back.message))
		w.saw("send-back failed both ways")
		return false
	case backAsNormal:
		w.broker.sendAsNormal(back)
		w.saw("send-back failed, sent as normal")
	default:
		w.broker.sendBack(back)
	}
	return true
}
