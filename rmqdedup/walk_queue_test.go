package rmqdedup_test

import (
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A clientQueue is the client's processQueue: the messages of one queue that a member has pulled and not settled yet, from the
// moment that it takes the queue until it drops it.
type clientQueue struct {
	m  *groupMember
	id primitive.MessageQueue

	closed  chan struct{}                // when it is dropped
	feed    chan []*primitive.MessageExt // concurrent: what was pulled, for the dispatcher
	arrived chan struct{}                // ordered: there is something to take

	// Guarded by the world's mutex.
	dropped   bool
	next      int64                           // where the next pull begins
	cache     map[int64]*primitive.MessageExt // by queue offset
	consuming map[int64]*primitive.MessageExt // ordered: taken, not yet committed or put back
	count     int                             // cached and consuming
	highest   int64                           // the highest offset that was put
	locked    bool
	lockedAt  time.Time
	readAgain bool // ordered: the offset was read once more when the lock was there
}

func newClientQueue(m *groupMember, id primitive.MessageQueue) *clientQueue {
	return &clientQueue{
		m: m, id: id, closed: make(chan struct{}), feed: make(chan []*primitive.MessageExt, 32), arrived: make(chan struct{}, 1),
		cache: make(map[int64]*primitive.MessageExt), consuming: make(map[int64]*primitive.MessageExt),
	}
}

// start begins to pull and to consume. The world's mutex is held.
func (q *clientQueue) start() {
	go q.pullOn()
	if q.m.w.plan.config.Mode == rmqdedup.Ordered {
		q.locked, q.lockedAt = true, time.Now()
		go q.consumeOrderly()
	} else {
		go q.dispatch()
	}
}

// drop ends it: answers that come from now on are thrown away. The world's mutex is held.
func (q *clientQueue) drop() {
	if !q.dropped {
		q.dropped = true
		close(q.closed)
	}
}

// gone says whether answers have no effect any more. The world's mutex is held.
func (q *clientQueue) gone() bool { return q.dropped || q.m.crashed() }

// The client's and the broker's times.
const (
	pullHold    = 20 * time.Second // how long the broker holds a pull that finds nothing
	pullPause   = 3 * time.Second  // after an error
	takePause   = 5 * time.Second  // how long an ordered consumer waits for a message before it looks at its lock again
	rerunPause  = 5 * time.Second  // before messages that could not be sent back run again
	lockExpires = 30 * time.Second // by the client's own reckoning
)

// pullOn pulls messages until the queue is dropped.
func (q *clientQueue) pullOn() {
	w, ordered := q.m.w, q.m.w.plan.config.Mode == rmqdedup.Ordered
	for {
		var msgs []*primitive.MessageExt
		var arrived chan struct{}
		stop, later := false, false
		w.locked(func() {
			if stop = q.gone(); stop {
				return
			}
			if ordered && !q.locked {
				later = true
				return
			}
			if ordered && !q.readAgain {
				q.next, q.readAgain = w.broker.queues[q.id].committed, true
			}
			msgs = w.broker.fetch(q.id, q.next, w.plan.pull)
			arrived = w.broker.queues[q.id].arrived
			if len(msgs) > 0 {
				q.next = msgs[len(msgs)-1].QueueOffset + 1
				q.put(msgs)
			}
		})
		switch {
		case stop:
			return
		case later:
			w.wait(pullPause, q.closed, q.m.dead)
		case len(msgs) == 0:
			q.hold(arrived)
		case ordered:
			select {
			case q.arrived <- struct{}{}:
			default:
			}
		default:
			select {
			case q.feed <- msgs:
			case <-q.closed:
			case <-q.m.dead:
			case <-w.end:
			}
		}
		if w.ended() {
			return
		}
	}
}

// hold is a pull that the broker holds until a message arrives. When none does, a client that has nothing in its cache takes its
// offset for consumed.
func (q *clientQueue) hold(arrived chan struct{}) {
	timer := time.NewTimer(pullHold)
	defer timer.Stop()
	select {
	case <-arrived:
	case <-q.closed:
	case <-q.m.dead:
	case <-q.m.w.end:
	case <-timer.C:
		q.m.w.locked(func() {
			if q.count <= 0 && !q.gone() {
				q.m.update(q.id, q.next)
			}
		})
	}
}

// put takes pulled messages into the cache. The world's mutex is held.
func (q *clientQueue) put(msgs []*primitive.MessageExt) {
	for _, m := range msgs {
		if q.cache[m.QueueOffset] != nil || q.consuming[m.QueueOffset] != nil {
			continue
		}
		q.cache[m.QueueOffset] = m
		q.count++
		q.highest = m.QueueOffset
	}
}

// settle takes messages out of the cache and returns up to where the queue has been consumed, or −1 if that cannot be told. The world's mutex is held.
func (q *clientQueue) settle(msgs []*primitive.MessageExt) int64 {
	if len(q.cache) == 0 {
		return -1
	}
	for _, m := range msgs {
		if _, cached := q.cache[m.QueueOffset]; cached {
			delete(q.cache, m.QueueOffset)
			q.count--
		}
	}
	if first := q.first(); first != nil {
		return first.QueueOffset
	}
	return q.highest + 1
}

// first is the cached message with the lowest offset. The world's mutex is held.
func (q *clientQueue) first() (first *primitive.MessageExt) {
	for _, m := range q.cache {
		if first == nil || m.QueueOffset < first.QueueOffset {
			first = m
		}
	}
	return first
}

// prepare makes messages ready for the listener: it restores the topic of a retry, and stamps the time at which their consumption starts.
func prepare(msgs []*primitive.MessageExt) {
	for _, m := range msgs {
		if origin := m.GetProperty(primitive.PropertyRetryTopic); origin != "" && m.Topic == retryTopic {
			m.Topic = origin
		}
		m.WithProperty(primitive.PropertyConsumeStartTime, strconv.FormatInt(time.Now().UnixMilli(), 10))
	}
}

func (w *world) ended() bool {
	select {
	case <-w.end:
		return true
	default:
		return false
	}
}
