package rmqdedup_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Names in the model.
const (
	walkGroup     = "walkers"
	walkTopic     = "orders"
	retryTopic    = "%RETRY%" + walkGroup
	brokerName    = "broker-a"
	orderProperty = "ORDER" // the order's number: the business key
	truthProperty = "TRUTH" // which sentMessage it is: for the test alone
)

// A brokerModel is RocketMQ's broker as far as a consumer group meets it: queues with committed offsets, send-back with
// delay levels and the dead-letter queue, the group's members and its queue locks. All its methods are called with the world's mutex held.
type brokerModel struct {
	w         *world
	queues    map[primitive.MessageQueue]*brokerQueue
	log       []*storedMessage // by commit log offset
	scheduled int              // delayed messages that are not yet in their queue
	listed    map[*groupMember]bool
	locks     map[primitive.MessageQueue]queueLock
}

type brokerQueue struct {
	messages  []*storedMessage // by queue offset
	committed int64            // the group's offset
	arrived   chan struct{}    // closed and made anew when a message arrives
}

// A storedMessage is one record of the commit log.
type storedMessage struct {
	sent           *sentMessage
	queue          primitive.MessageQueue
	queueOffset    int64
	logOffset      int64
	reconsumeTimes int32
	properties     map[string]string
}

type queueLock struct {
	owner *groupMember
	until time.Time
}

func queueOf(topic string, id int) primitive.MessageQueue {
	return primitive.MessageQueue{Topic: topic, BrokerName: brokerName, QueueId: id}
}

func newBroker(w *world) *brokerModel {
	b := &brokerModel{
		w: w, queues: make(map[primitive.MessageQueue]*brokerQueue),
		listed: make(map[*groupMember]bool), locks: make(map[primitive.MessageQueue]queueLock),
	}
	for q := range w.plan.queues {
		b.queues[queueOf(walkTopic, q)] = &brokerQueue{arrived: make(chan struct{})}
	}
	b.queues[queueOf(retryTopic, 0)] = &brokerQueue{arrived: make(chan struct{})}
	return b
}

// queuesOf are a topic's queues in order.
func (b *brokerModel) queuesOf(topic string) (queues []primitive.MessageQueue) {
	for q := range b.queues {
		if q.Topic == topic {
			queues = append(queues, q)
		}
	}
	slices.SortFunc(queues, func(x, y primitive.MessageQueue) int { return x.QueueId - y.QueueId })
	return queues
}

// send stores what a producer sends.
func (b *brokerModel) send(s *sentMessage, properties map[string]string) {
	m := &storedMessage{sent: s, properties: properties}
	b.store(queueOf(walkTopic, s.queue), m)
	s.offset = m.queueOffset
	b.w.note("%v is sent to queue %d at offset %d, as %s", s, s.queue, m.queueOffset, m.properties[primitive.PropertyUniqueClientMessageIdKeyIndex])
}

// store appends a message to a queue.
func (b *brokerModel) store(to primitive.MessageQueue, m *storedMessage) {
	q := b.queues[to]
	m.queue, m.queueOffset, m.logOffset = to, int64(len(q.messages)), int64(len(b.log))
	b.log = append(b.log, m)
	q.messages = append(q.messages, m)
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// schedule stores a message in the retry topic after the delay of a level.
func (b *brokerModel) schedule(m *storedMessage, level int) {
	level = min(level, len(b.w.plan.config.DelayLevels))
	m.properties[primitive.PropertyDelayTimeLevel] = strconv.Itoa(level)
	b.scheduled++
	time.AfterFunc(b.w.plan.config.DelayLevels[level-1], func() {
		b.w.mu.Lock()
		defer b.w.mu.Unlock()
		b.scheduled--
		b.store(queueOf(retryTopic, 0), m)
	})
}

// A sendBack is a request to deliver a message again later, with what is known of why.
type sendBack struct {
	message *primitive.MessageExt
	level   int
	call    *listenerCall // whose answer asked for it; nil: the client's cleaner did
}

// maxReconsume is what the client puts into its requests.
func (b *brokerModel) maxReconsume() int32 {
	if n := b.w.plan.retries(); n >= 0 {
		return n
	}
	return 16
}

// sendBack is request 36.
func (b *brokerModel) sendBack(back sendBack) {
	old := b.log[back.message.CommitLogOffset]
	m := &storedMessage{sent: old.sent, reconsumeTimes: old.reconsumeTimes + 1, properties: maps.Clone(old.properties)}
	setAbsent(m.properties, primitive.PropertyRetryTopic, old.queue.Topic)
	setAbsent(m.properties, primitive.PropertyOriginMessageId, offsetID(old.logOffset))
	if old.reconsumeTimes >= b.maxReconsume() || back.level < 0 {
		b.deadLetter(m, back)
		return
	}
	level := back.level
	if level == 0 {
		level = 3 + int(old.reconsumeTimes)
	}
	b.w.note("%v is sent back at level %d (asked: %d), to be delivered a %dth time", m.sent, level, back.level, m.reconsumeTimes+1)
	b.schedule(m, level)
}

// sendAsNormal is the client's second way, when request 36 has failed: it sends a copy to the retry topic itself, counts the attempt, and ignores the
// level that was asked for.
func (b *brokerModel) sendAsNormal(back sendBack) {
	ext := back.message
	m := &storedMessage{
		sent: b.log[ext.CommitLogOffset].sent, reconsumeTimes: ext.ReconsumeTimes + 1, properties: ext.GetProperties(),
	}
	setAbsent(m.properties, primitive.PropertyOriginMessageId, ext.MsgId)
	if ext.Topic != retryTopic {
		// The client does it in any case, so that the cleaner, when it sends back in this way a retry that it only takes for started, makes it
		// one of the retry topic itself, for which there is no listener. That is left out.
		m.properties[primitive.PropertyRetryTopic] = ext.Topic
	}
	if m.reconsumeTimes > b.maxReconsume() || b.anyLock() {
		b.deadLetter(m, back)
		return
	}
	b.w.note("%v is sent again as a normal message, to be delivered a %dth time", m.sent, m.reconsumeTimes+1)
	b.schedule(m, 3+int(ext.ReconsumeTimes))
}

func setAbsent(properties map[string]string, key, value string) {
	if properties[key] == "" {
		properties[key] = value
	}
}

func (b *brokerModel) deadLetter(m *storedMessage, back sendBack) {
	b.w.note("%v is dead-lettered (level %d, after %d deliveries)", m.sent, back.level, m.reconsumeTimes)
	m.sent.dead++
	b.w.judgeDeadLetter(m.sent, back)
}

// anyLock says whether the group holds a queue lock: then the broker dead-letters what is sent to the retry topic.
func (b *brokerModel) anyLock() bool {
	for _, l := range b.locks {
		if time.Now().Before(l.until) {
			return true
		}
	}
	return false
}

// lock gives an ordered queue to a member, or prolongs its lock.
func (b *brokerModel) lock(q primitive.MessageQueue, m *groupMember) bool {
	if l := b.locks[q]; l.owner != nil && l.owner != m && time.Now().Before(l.until) {
		return false
	}
	b.locks[q] = queueLock{m, time.Now().Add(b.w.plan.lockLife)}
	return true
}

func (b *brokerModel) unlock(q primitive.MessageQueue, m *groupMember) {
	if b.locks[q].owner == m {
		delete(b.locks, q)
	}
}

// fetch returns at most n messages from an offset on, as a client decodes them: each time new objects.
func (b *brokerModel) fetch(q primitive.MessageQueue, from int64, n int) []*primitive.MessageExt {
	stored := b.queues[q].messages
	from = min(from, int64(len(stored)))
	var fetched []*primitive.MessageExt
	for _, m := range stored[from:min(from+int64(n), int64(len(stored)))] {
		fetched = append(fetched, m.decode())
	}
	return fetched
}

func (m *storedMessage) decode() *primitive.MessageExt {
	queue := m.queue
	ext := &primitive.MessageExt{
		QueueOffset: m.queueOffset, CommitLogOffset: m.logOffset, ReconsumeTimes: m.reconsumeTimes, OffsetMsgId: offsetID(m.logOffset),
	}
	ext.Topic, ext.Queue, ext.Body = m.queue.Topic, &queue, []byte(m.sent.work.name)
	ext.WithProperties(maps.Clone(m.properties))
	if ext.MsgId = m.properties[primitive.PropertyUniqueClientMessageIdKeyIndex]; ext.MsgId == "" {
		ext.MsgId = ext.OffsetMsgId
	}
	return ext
}

func offsetID(logOffset int64) string { return fmt.Sprintf("0A000001%024X", logOffset) }

// commit stores the group's offset of a queue. It may go back: that is how a replay is asked for, and how a slow member's commit looks.
func (b *brokerModel) commit(q primitive.MessageQueue, offset int64) { b.queues[q].committed = offset }

func (b *brokerModel) drained() bool {
	for _, q := range b.queues {
		if q.committed < int64(len(q.messages)) {
			return false
		}
	}
	return b.scheduled == 0
}

func (b *brokerModel) undelivered() string {
	var what []string
	for id, q := range b.queues {
		if q.committed < int64(len(q.messages)) {
			what = append(what, fmt.Sprintf("%s/%d stands at %d of %d (%v)", id.Topic, id.QueueId, q.committed, len(q.messages), q.messages[q.committed].sent))
		}
	}
	return fmt.Sprintf("%s; %d delayed", strings.Join(what, ", "), b.scheduled)
}
