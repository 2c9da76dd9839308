package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// A broker is a real RocketMQ, on which a cell has topics and groups of its own. They are removed with the stage.
type broker struct {
	nameServer string
	address    string
	topics     []string
	groups     []string
	producer   rocketmq.Producer

	fullTopic string // all measurements read it
	fullWith  int    // messages
}

const nameServerVariable = "RMQDEDUP_NAMESRV"

func newBroker(ctx context.Context, s *stage) (*broker, error) {
	b := &broker{nameServer: os.Getenv(nameServerVariable)}
	if b.nameServer == "" {
		return nil, fmt.Errorf(`%s names no name server; start one: make up && eval "$(make -s env)"`, nameServerVariable)
	}
	cluster, err := call(ctx, b.nameServer, codeCluster, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameServerVariable, err)
	}
	found := masterPattern.FindSubmatch(cluster)
	if found == nil {
		return nil, fmt.Errorf("%s: the name server knows no broker", nameServerVariable)
	}
	b.address = string(found[1])
	s.later(b.remove)
	b.producer, err = rocketmq.NewProducer(
		producer.WithNameServer(primitive.NamesrvAddr{b.nameServer}),
		producer.WithInstanceName(newName("producer")), producer.WithGroupName("bench-producer"))
	if err != nil {
		return nil, err
	}
	s.later(func(context.Context) error { return b.producer.Shutdown() })
	return b, b.producer.Start()
}

func newName(what string) string { return "bench-" + what + "-" + strings.ToLower(rand.Text()) }

// queues are a topic's.
const queues = 8

// newTopic makes a topic, and waits until clients find it.
func (b *broker) newTopic(ctx context.Context) (string, error) {
	topic, n := newName("topic"), strconv.Itoa(queues)
	b.topics = append(b.topics, topic)
	_, err := call(ctx, b.address, codeCreateTopic, map[string]string{
		"topic": topic, "defaultTopic": "TBW102", "readQueueNums": n, "writeQueueNums": n, "perm": "6",
		"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
	})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// The broker tells the name server in its own time.
		_, err := call(ctx, b.nameServer, codeRoute, map[string]string{"topic": topic})
		if err == nil {
			return topic, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for the route of %s: %w", topic, err)
		}
	}
}

// newGroup makes up a group's name. The group comes into being with its first member.
func (b *broker) newGroup() string {
	group := newName("group")
	b.groups = append(b.groups, group)
	return group
}

// remove removes topics and groups.
func (b *broker) remove(ctx context.Context) error {
	var errs []error
	for _, group := range b.groups {
		_, err := call(ctx, b.address, codeDeleteGroup, map[string]string{"groupName": group, "cleanOffset": "true"})
		errs = append(errs, err)
		b.topics = append(b.topics, "%RETRY%"+group)
	}
	for _, topic := range b.topics {
		_, err := call(ctx, b.address, codeDeleteTopic, map[string]string{"topic": topic})
		_, dropped := call(ctx, b.nameServer, codeDropRoute, map[string]string{"topic": topic})
		errs = append(errs, err, dropped)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing topics and groups: %w", err)
	}
	return nil
}

// send sends the messages with the numbers from first to first+n-1 in one batch, to one queue.
func (b *broker) send(ctx context.Context, topic string, first, n int) error {
	msgs := make([]*primitive.Message, n)
	for i := range msgs {
		msgs[i] = primitive.NewMessage(topic, body).WithTag("paid").WithKeys([]string{keyOf(first + i)})
		// The client gives none to the members of a batch, and all others have one.
		msgs[i].WithProperty(primitive.PropertyUniqueClientMessageIdKeyIndex, primitive.CreateUniqID())
	}
	r, err := b.producer.SendSync(ctx, msgs...)
	if err == nil && r.Status != primitive.SendOK {
		err = fmt.Errorf("the broker's status is %d", r.Status)
	}
	if err != nil {
		return fmt.Errorf("sending to %s: %w", topic, err)
	}
	return nil
}

var body = []byte(`{"order":{"id":"0000000","amount":100,"currency":"EUR"},"items":["one","two","three"]}`)

// keyOf is the key of a message, and numberOf its number.
func keyOf(i int) string { return strconv.Itoa(i) }

func numberOf(m *primitive.MessageExt) (int, error) {
	return strconv.Atoi(strings.TrimSpace(m.GetKeys()))
}

// mostInBatch is how many messages are sent at once.
const mostInBatch = 100

// fill sends n messages to a topic.
func (b *broker) fill(ctx context.Context, topic string, n int) error {
	for first := 0; first < n; first += mostInBatch {
		if err := b.send(ctx, topic, first, min(mostInBatch, n-first)); err != nil {
			return err
		}
	}
	return nil
}
