package rmqtest

import (
	"encoding/json"
	"time"
)

// A queueLock lets one client of an ordered group consume a queue. It ends by itself, not with the connection.
type queueLock struct {
	owner string
	until time.Time
}

type lockBody struct {
	Group  string      `json:"consumerGroup"`
	Client string      `json:"clientId"`
	Queues []queueName `json:"mqSet"`
}

type queueName struct {
	Topic  string `json:"topic"`
	Broker string `json:"brokerName"`
	Queue  int    `json:"queueId"`
}

// lock grants or renews what is free, expired or the asking client's own, and answers with that part; or it frees what is
// the client's own.
func (b *Broker) lock(_ *conn, r *Request) answer {
	var body lockBody
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return fail(SystemError, err)
	}
	now, granted := time.Now(), []queueName{}
	for _, q := range body.Queues {
		at := position{body.Group, q.Topic, q.Queue}
		held := b.locks[at]
		switch own := held.owner == body.Client; {
		case r.Code == Unlock && own:
			delete(b.locks, at)
		case r.Code == Lock && (own || !now.Before(held.until)):
			b.locks[at] = queueLock{body.Client, now.Add(b.cfg.LockLife)}
			granted = append(granted, q)
		}
	}
	b.changed()
	return jsonAnswer(map[string][]queueName{"lockOKMQSet": granted})
}

// holdsLocks tells an ordered group from others. b.mu is held.
func (b *Broker) holdsLocks(group string) bool {
	now := time.Now()
	for at, held := range b.locks {
		if at.group == group && now.Before(held.until) {
			return true
		}
	}
	return false
}
