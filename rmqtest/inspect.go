package rmqtest

import (
	"slices"
	"strings"
	"time"
)

// A Delivery is one message that left with the answer to a pull. The client may still drop it: if a balance took the
// queue, or at shutdown.
type Delivery struct {
	Group, Client  string
	Topic          string // RetryTopic(Group) for a retry
	QueueID        int
	QueueOffset    int64
	ID             string // the message's FirstID, the same one for all its copies
	ReconsumeTimes int32
	Time           time.Time
}

// Messages returns what a topic holds, queue by queue in the order of their offsets. Of a topic that does not exist
// it returns nothing. Delayed messages are not there before their time.
func (b *Broker) Messages(topic string) []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Message
	for _, q := range b.topics[topic] {
		for _, m := range q.records {
			all = append(all, m.clone())
		}
	}
	return all
}

// A Delayed is a message whose time has not come. Its own Topic is where it will go; QueueID and QueueOffset are its
// place in its level's own queue.
type Delayed struct {
	Message
	Level int
	Due   time.Time
}

// Delayed returns the messages whose time has not come, in the order of their times.
func (b *Broker) Delayed() []Delayed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.delayed()
}

func (b *Broker) delayed() (all []Delayed) {
	for _, d := range b.schedule {
		all = append(all, Delayed{d.clone(), d.delayLevel(), d.due})
	}
	return all
}

// Deliveries returns a group's deliveries in their order.
func (b *Broker) Deliveries(group string) []Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.deliveries[group])
}

// DeliveryCount says how often a message, named by its FirstID, was delivered to a group, retries included.
func (b *Broker) DeliveryCount(group, id string) (n int) {
	for _, d := range b.Deliveries(group) {
		if d.ID == id {
			n++
		}
	}
	return n
}

// Offset returns a group's committed offset in a queue, if it has one.
func (b *Broker) Offset(group, topic string, queueID int) (offset int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	offset, ok = b.offsets[position{group, topic, queueID}]
	return offset, ok
}

// Lag is how many messages of a topic lie at or above a group's committed offsets.
func (b *Broker) Lag(group, topic string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lag(group, topic)
}

func (b *Broker) lag(group, topic string) (n int64) {
	for id, q := range b.topics[topic] {
		n += q.maxOffset() - b.offsets[position{group, topic, id}]
	}
	return n
}

// Members returns the client IDs of a group's members, in order. A client ID is an address, @ and the instance name.
func (b *Broker) Members(group string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memberIDs(group)
}

// LockOwner returns the client ID of the ordered consumer that has a queue locked, or "".
func (b *Broker) LockOwner(group, topic string, queueID int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.locks[position{group, topic, queueID}]; time.Now().Before(l.until) {
		return l.owner
	}
	return ""
}

// Requests returns the latest requests, 10,000 at least, of all codes or of those given, in the order in which they were
// taken up.
func (b *Broker) Requests(codes ...Code) []*Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*Request
	for _, r := range b.requests {
		if len(codes) == 0 || slices.Contains(codes, r.Code) {
			all = append(all, r)
		}
	}
	return all
}

// RequestCount says how many requests with a code came since Start.
func (b *Broker) RequestCount(code Code) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[code]
}

// isNamed says whether a client ID is the one given, or one with the instance name given.
func isNamed(id, name string) bool {
	return name != "" && (id == name || strings.HasSuffix(id, "@"+name))
}
