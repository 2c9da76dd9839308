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
	m := &Message{
		Topic:          r.Topic,
		Flag:           int32(r.number("flag")),
		SysFlag:        int32(r.number("sysFlag")) &^ flagsIPv6,
		ReconsumeTimes: int32(r.number("reconsumeTimes")),
		BornTime:       time.UnixMilli(r.number("bornTimestamp")),
		BornHost:       c.remote,
		Body:           r.Body,
		Properties:     decodeProperties(r.Fields["properties"]),
	}
	if len(m.Body) == 0 {
		return fail(SystemError, errors.New("the message has no body"))
	}
	topic, queueID, most := r.Topic, r.Queue, int32(r.number("maxReconsumeTimes"))
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
	members, err := decodeBatch(r.Body)
	if err != nil {
		return fail(IllegalMessage, err)
	}
	for _, m := range members {
		m.Topic, m.BornTime, m.BornHost = r.Topic, time.UnixMilli(r.number("bornTimestamp")), c.remote
	}
	return b.storeSent(r, r.Topic, r.Queue, b.append, members...)
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
	if b.doubles > 0 {
		b.doubles--
		for _, m := range members {
			twin := m.clone()
			put(&twin, topic, queueID)
		}
	}
	ids := make([]string, len(members))
	for i, m := range members {
		put(m, topic, queueID)
		ids[i] = m.OffsetID()
	}
	return answer{fields: map[string]string{
		"msgId": strings.Join(ids, ","), "queueId": strconv.Itoa(queueID),
		"queueOffset": strconv.FormatInt(members[0].QueueOffset, 10),
		propRegion:    region, propTrace: "true",
	}}
}

// sendBack stores a failed message's next copy: delayed in the group's retry topic, or in its dead-letter topic.
func (b *Broker) sendBack(_ *conn, r *Request) answer {
	group, offset := r.Group, r.number("offset")
	level, most := int(r.number("delayLevel")), int32(r.number("maxReconsumeTimes"))
	if err := checkTopic(RetryTopic(group)); err != nil {
		return fail(InvalidParameter, err)
	}
	failed := b.log[offset]
	if failed == nil {
		return fail(SystemError, fmt.Errorf("no message at commit log offset %d", offset))
	}
	m := failed.clone()
	m.ReconsumeTimes++
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
