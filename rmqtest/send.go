package rmqtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// send stores one message.
func (b *Broker) send(c *conn, r *Request) answer {
	a := fields{values: r.Fields}
	m := &Message{
		Topic:          a.text("topic"),
		Flag:           int32(a.number("flag")),
		SysFlag:        int32(a.number("sysFlag")) &^ flagsIPv6,
		ReconsumeTimes: int32(a.number("reconsumeTimes")),
		BornTime:       time.UnixMilli(a.number("bornTimestamp")),
		BornHost:       c.remote,
		Body:           r.Body,
		Properties:     decodeProperties(r.Fields["properties"]),
	}
	queueID, most := int(a.number("queueId")), int32(a.number("maxReconsumeTimes"))
	if a.err == nil && len(m.Body) == 0 {
		a.err = errors.New("the message has no body")
	}
	if a.err != nil {
		return fail(SystemError, a.err)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	topic := m.Topic
	if group, retry := strings.CutPrefix(topic, retryPrefix); retry && (m.ReconsumeTimes > most || b.holdsLocks(group)) {
		// A consumer's second way of sending back. It has counted the attempt itself, hence > and not >=.
		topic, queueID = DeadLetterTopic(group), 0
		m.Properties[propDelay] = "-1"
	}
	m.Properties[propRegion], m.Properties[propTrace], m.Properties[propCluster] = region, "true", cluster
	if m.Properties[propUniqueKey] == "" {
		m.Properties[propUniqueKey] = fmt.Sprintf("%032X", b.logEnd)
	}
	res := b.storeSent(r, topic, queueID, b.store, m)
	if res.status == OK {
		res.fields["transactionId"] = m.Properties[propUniqueKey]
	}
	return res
}

// sendBatch stores the members of a batch one after the other in one queue. They get no properties from the broker, and
// none of them is delayed.
func (b *Broker) sendBatch(c *conn, r *Request) answer {
	a := fields{values: r.Fields}
	topic, queueID, born := a.text("topic"), int(a.number("queueId")), time.UnixMilli(a.number("bornTimestamp"))
	members, err := decodeBatch(r.Body)
	if a.err != nil {
		return fail(SystemError, a.err)
	}
	if err != nil {
		return fail(IllegalMessage, err)
	}
	for _, m := range members {
		m.Topic, m.BornTime, m.BornHost = topic, born, c.remote
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.storeSent(r, topic, queueID, b.append, members...)
}

// storeSent puts what a producer sent into a queue and makes its answer. b.mu is held.
func (b *Broker) storeSent(r *Request, topic string, queueID int, put func(*Message, string, int), members ...*Message) answer {
	if err := checkTopic(topic); err != nil {
		return fail(InvalidParameter, err)
	}
	for _, m := range members {
		if err := m.check(); err != nil {
			return fail(IllegalMessage, err)
		}
	}
	wanted, _ := strconv.Atoi(r.Fields["defaultTopicQueueNums"])
	queues := b.topicFor(topic, wanted)
	if queues == nil {
		return fail(TopicUnknown, fmt.Errorf("topic %s does not exist", topic))
	}
	if queueID < 0 {
		queueID = rand.IntN(len(queues))
	}
	if queueID >= len(queues) {
		return fail(InvalidParameter, fmt.Errorf("topic %s has no queue %d", topic, queueID))
	}
	stored := members
	if b.doubles > 0 {
		b.doubles--
		for _, m := range members {
			twin := m.clone()
			put(&twin, topic, queueID)
			stored = append(stored, &twin)
		}
	}
	ids := make([]string, len(members))
	for i, m := range members {
		put(m, topic, queueID)
		ids[i] = m.OffsetID()
	}
	return answer{
		fields: map[string]string{
			"msgId": strings.Join(ids, ","), "queueId": strconv.Itoa(queueID),
			"queueOffset": strconv.FormatInt(members[0].QueueOffset, 10),
			propRegion:    region, propTrace: "true",
		},
		sent: func() {
			for _, m := range stored {
				m.answered = true
			}
		},
	}
}

// sendBack stores a failed message's next copy: delayed in the group's retry topic, or in its dead-letter topic.
func (b *Broker) sendBack(_ *conn, r *Request) answer {
	a := fields{values: r.Fields}
	group, offset := a.text("group"), a.number("offset")
	level, most := int(a.number("delayLevel")), int32(a.number("maxReconsumeTimes"))
	if a.err != nil {
		return fail(SystemError, a.err)
	}
	if err := checkTopic(RetryTopic(group)); err != nil {
		return fail(InvalidParameter, err)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	failed := b.log[offset]
	if failed == nil {
		return fail(SystemError, fmt.Errorf("no message at commit log offset %d", offset))
	}
	m := failed.clone()
	m.ReconsumeTimes++
	m.answered = true
	if m.Properties[propRetryTopic] == "" {
		m.Properties[propRetryTopic] = failed.Topic
	}
	if m.Properties[propOrigin] == "" {
		m.Properties[propOrigin] = failed.OffsetID()
	}
	m.Properties[propWait] = "false"

	topic := RetryTopic(group)
	switch {
	case failed.ReconsumeTimes >= most, level < 0:
		topic, level = DeadLetterTopic(group), 0
	case level == 0:
		level = 3 + int(failed.ReconsumeTimes)
	}
	m.Properties[propDelay] = strconv.Itoa(level)
	queues := b.topicFor(topic, 1)
	b.store(&m, topic, rand.IntN(len(queues)))
	return answer{}
}
