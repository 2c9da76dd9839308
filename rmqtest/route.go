package rmqtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What the broker calls itself.
const (
	cluster    = "rmqtest"
	brokerName = "rmqtest"
	region     = "DefaultRegion"

	permReadWrite = 6
)

type routeBody struct {
	Brokers []routeBroker `json:"brokerDatas"`
	Queues  []routeQueues `json:"queueDatas"`
}

type routeBroker struct {
	Cluster string            `json:"cluster"`
	Name    string            `json:"brokerName"`
	Addrs   map[string]string `json:"brokerAddrs"` // by broker ID; "0" is the master
}

type routeQueues struct {
	Broker string `json:"brokerName"`
	Read   int    `json:"readQueueNums"`
	Write  int    `json:"writeQueueNums"`
	Perm   int    `json:"perm"`
}

// route is the name server's part. A retry topic is made when it is asked for: with the real broker it appears with the
// group's first heart beat, which the group itself notices half a minute later.
func (b *Broker) route(_ *conn, r *Request) answer {
	name := r.Fields["topic"]
	if strings.HasPrefix(name, retryPrefix) && checkTopic(name) == nil {
		b.topicFor(name, 1)
	}
	queues := len(b.topics[name])
	if name == defaultTopic && !b.cfg.NoAutoCreate {
		queues = b.cfg.QueuesPerTopic
	}
	if queues == 0 {
		return fail(TopicUnknown, fmt.Errorf("no route for topic %.150q", name))
	}
	return jsonAnswer(routeBody{
		Brokers: []routeBroker{{cluster, brokerName, map[string]string{"0": b.host.String()}}},
		Queues:  []routeQueues{{brokerName, queues, queues, permReadWrite}},
	})
}

func (b *Broker) createTopic(_ *conn, r *Request) answer {
	if err := b.makeTopic(r.Topic, int(r.number("readQueueNums"))); err != nil {
		return fail(SystemError, err)
	}
	return answer{}
}

func (b *Broker) deleteTopic(_ *conn, r *Request) answer {
	queues := b.topics[r.Topic]
	delete(b.topics, r.Topic)
	for _, q := range queues {
		q.wake()
	}
	b.changed()
	return answer{}
}

func (b *Broker) listTopics(*conn, *Request) answer {
	return jsonAnswer(map[string][]string{"topicList": slices.Sorted(maps.Keys(b.topics))})
}

// Topics returns the names of all topics, in order.
func (b *Broker) Topics() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.topics))
}
