package rmqtest

import (
	"fmt"
	"strings"
	"time"
)

const (
	retryPrefix = "%RETRY%"
	deadPrefix  = "%DLQ%"

	// defaultTopic is the topic whose route a producer takes for a topic that does not exist yet.
	defaultTopic = "TBW102"

	maxQueues = 1024
)

// RetryTopic is the topic through which a group's failed messages come back.
func RetryTopic(group string) string { return retryPrefix + group }

// DeadLetterTopic is the topic that holds the messages of which a group has used up all attempts.
func DeadLetterTopic(group string) string { return deadPrefix + group }

// checkTopic allows what the real broker allows in a topic's name.
func checkTopic(name string) error {
	const others = "%|-_"
	illegal := strings.ContainsFunc(name, func(r rune) bool {
		alnum := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !alnum && !strings.ContainsRune(others, r)
	})
	if name == "" || len(name) > maxTopic || illegal {
		return fmt.Errorf("%w: topic %.150q: a name has 1 to %d letters, digits or any of %s", errMessage, name, maxTopic, others)
	}
	return nil
}

// A queue holds its records by offset.
type queue struct {
	records []*Message
	arrived chan struct{} // closed and replaced when a record is appended
}

func (q *queue) wake() {
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// maxOffset is the offset of the next record; the first one is always 0.
func (q *queue) maxOffset() int64 { return int64(len(q.records)) }

// addTopic makes a topic or gives it more queues; it never takes a queue away. b.mu is held.
func (b *Broker) addTopic(name string, queues int) {
	for len(b.topics[name]) < min(max(queues, 1), maxQueues) {
		b.topics[name] = append(b.topics[name], &queue{arrived: make(chan struct{})})
	}
	b.changed()
}

// topicFor returns the queues of a topic that is sent to, making the topic if need be and allowed. b.mu is held.
func (b *Broker) topicFor(name string, queues int) []*queue {
	if b.topics[name] == nil {
		switch {
		case strings.HasPrefix(name, retryPrefix), strings.HasPrefix(name, deadPrefix):
			b.addTopic(name, 1)
		case !b.cfg.NoAutoCreate:
			b.addTopic(name, min(queues, b.cfg.QueuesPerTopic))
		}
	}
	return b.topics[name]
}

// queueOf returns nil if there is no such queue. b.mu is held.
func (b *Broker) queueOf(topic string, id int) *queue {
	if queues := b.topics[topic]; 0 <= id && id < len(queues) {
		return queues[id]
	}
	return nil
}

// stamp gives the record its place in the commit log. b.mu is held.
func (b *Broker) stamp(m *Message) {
	m.StoreTime, m.StoreHost = time.Now(), b.host
	m.CommitLogOffset = b.logEnd
	b.logEnd += int64(m.size())
	b.log[m.CommitLogOffset] = m
}

// append stores the record in an existing queue, at once. b.mu is held.
func (b *Broker) append(m *Message, topic string, queueID int) {
	q := b.topics[topic][queueID]
	m.Topic, m.QueueID, m.QueueOffset = topic, queueID, q.maxOffset()
	b.stamp(m)
	q.records = append(q.records, m)
	q.wake()
	b.changed()
}

// store appends the record, or puts it aside if it carries a delay level. b.mu is held.
func (b *Broker) store(m *Message, topic string, queueID int) {
	m.Topic = topic
	if level := m.delayLevel(); level > 0 {
		b.delay(m, queueID, level)
		return
	}
	b.append(m, topic, queueID)
}
