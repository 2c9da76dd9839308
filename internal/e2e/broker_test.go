package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// A broker is a RocketMQ that stories are played on. Waits end when what is waited for is there, or with ctx.
type broker interface {
	// nameServer is what clients are given: an IP literal and a port.
	nameServer() string
	// delayLevels are the delays of its levels, level 1 first.
	delayLevels() []time.Duration
	// lacks says what it cannot do, and why; a story that needs it is skipped with that reason.
	lacks() map[ability]string

	// createTopic makes a topic and waits until clients find it.
	createTopic(ctx context.Context, topic string, queues int) error
	deleteTopic(ctx context.Context, topic string) error
	// messages waits until queue 0 of a topic has held n messages, and returns what it holds.
	messages(ctx context.Context, topic string, n int) ([]*primitive.MessageExt, error)
	// stored is how many messages a topic has held.
	stored(ctx context.Context, topic string) (int64, error)
	// rewind lets a group begin anew whose members have all been shut down.
	rewind(ctx context.Context, group, topic string) error
	// consumeDirectly hands a message to one member's listener past all queues, as an operator's tools do.
	consumeDirectly(ctx context.Context, group, instance string, m *primitive.MessageExt) (directResult, error)
	// awaitMembers waits until a group has n members.
	awaitMembers(ctx context.Context, group string, n int) error

	// The faults.

	// road is a way to it on which requests and answers are lost, and connections break.
	road(s *story) road
	// restart stops it, starts it again, and waits until a topic can be used. It is for settings that ask for restarts.
	restart(ctx context.Context, topic string, how rmqtest.Restart) error
	// storeTwice has the message that send sends stored twice.
	storeTwice(send func())
	// duplicate has a topic's first message come once more, which resend would send again.
	duplicate(topic string, resend func()) error
	// loseProgress has the group's progress in a topic forgotten, from now until end, before which its members are to leave.
	loseProgress(group, topic string) (end func(context.Context) error)
	// replay has a topic delivered to a group again whose members run.
	replay(ctx context.Context, group, topic string) error
	// addPhantom adds a member to a group that takes its share of the queues, the first ones, and consumes nothing.
	addPhantom(ctx context.Context, group, topic string) (leave func(context.Context) error, err error)
	// rebalance has the story's members balance.
	rebalance(s *story) error
	// takeQueues gives all queues of a member to the others, and waits until it has let go. All are on roads of their own.
	takeQueues(s *story, from *member) error
	// split has each member take all queues, and waits until they have them, up to heal. All are on roads of their own.
	split(s *story) (heal func() error, err error)
}

// An ability is something that not every broker has.
type ability string

const (
	// canMoveOrderedQueues: an ordered queue moves to another member while its old owner lives, or when it has died.
	canMoveOrderedQueues ability = "move an ordered queue"
)

// A directResult is what a client says of a message that it was told to consume directly: 0 is success, 1 retry later, 4 an error.
type directResult struct {
	Result int    `json:"consumeResult"`
	Remark string `json:"remark"`
}

// A venue is a broker by its name.
type venue struct {
	name string
	open func(*testing.T, setting) broker
}

// brokers are those that stories are played on, and how one comes by them.
var brokers = []venue{
	{"rocketmq", openRocketMQ},
	{"rmqtest", openInProcess},
}

// rocketMQ is a real one.
type rocketMQ struct{ wire }

func openRocketMQ(t *testing.T, set setting) broker {
	t.Helper()
	variable := "RMQDEDUP_NAMESRV"
	if set.restarts {
		variable = "RMQDEDUP_RESTARTABLE"
	}
	b := &rocketMQ{wire{names: testenv.Require(t, variable)}}
	for field := range strings.FieldsSeq(os.Getenv("RMQDEDUP_DELAY_LEVELS")) {
		d, err := time.ParseDuration(field)
		if err != nil {
			t.Fatalf("RMQDEDUP_DELAY_LEVELS: %v", err)
		}
		b.levels = append(b.levels, d)
	}
	if len(b.levels) < 4 {
		t.Fatal("RMQDEDUP_DELAY_LEVELS is not set, or has fewer than 4 levels: it must say the broker's messageDelayLevel, such as '1s 2s 3s 4s'")
	}
	if set.restarts {
		haveToOneself(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := b.locate(ctx)
	if err != nil && set.restarts { // a story that failed may have left it down
		err = errors.Join(servers(ctx, "up", restartableSet), b.locate(ctx))
	}
	if err != nil {
		t.Fatalf("the name server at %s: %v", variable, err)
	}
	return b
}

// locate asks the name server for the broker.
func (b *wire) locate(ctx context.Context) error {
	cluster, err := call(ctx, b.names, codeCluster, nil, nil)
	if err = errors.Join(err, cluster.error()); err != nil {
		return err
	}
	b.addr, err = find(masterPattern, cluster.body)
	return err
}

func (*rocketMQ) lacks() map[ability]string {
	if long {
		return nil
	}
	return map[ability]string{
		canMoveOrderedQueues: "the lock of its old owner lives for a minute; RMQDEDUP_LONG=1, or make test-long, waits for it",
	}
}

func (b *rocketMQ) consumeDirectly(ctx context.Context, group, instance string, m *primitive.MessageExt) (r directResult, err error) {
	members, err := b.members(ctx, group)
	if err != nil {
		return r, err
	}
	clientID, err := find(regexp.MustCompile(`"([^"]*@`+regexp.QuoteMeta(instance)+`)"`), members)
	if err != nil {
		return r, err
	}
	route, err := b.route(ctx, m.Topic)
	if err != nil {
		return r, err
	}
	name, err := find(namePattern, route)
	if err != nil {
		return r, err
	}
	a, err := b.ask(ctx, codeConsumeDirectly, map[string]string{
		"consumerGroup": group, "clientId": clientID, "msgId": m.OffsetMsgId, "brokerName": name, "topic": m.Topic,
	})
	if err == nil {
		err = json.Unmarshal(a.body, &r)
	}
	return r, err
}

// A wire is what any broker can be asked in RocketMQ's own protocol.
type wire struct {
	names  string // the name server
	addr   string // its one broker
	levels []time.Duration
}

func (b *wire) nameServer() string           { return b.names }
func (b *wire) delayLevels() []time.Duration { return b.levels }

// The name server writes JSON with keys that are no strings ({0:"127.0.0.1:10911"}), so what is needed of it is picked out.
var (
	masterPattern = regexp.MustCompile(`"brokerAddrs":\{"?0"?:"([^"]+)"`)
	namePattern   = regexp.MustCompile(`"brokerName":"([^"]+)"`)
	queuesPattern = regexp.MustCompile(`"readQueueNums":(\d+)`)
	clientIDs     = regexp.MustCompile(`"[^"]+@[^"]+"`)
)

func find(p *regexp.Regexp, in []byte) (string, error) {
	m := p.FindSubmatch(in)
	if m == nil {
		return "", fmt.Errorf("no %s in %.300q", p, in)
	}
	return string(m[1]), nil
}

// ask makes a request to the broker that is to succeed.
func (b *wire) ask(ctx context.Context, code int, fields map[string]string) (answer, error) {
	a, err := call(ctx, b.addr, code, fields, nil)
	return a, errors.Join(err, a.error())
}

func (b *wire) route(ctx context.Context, topic string) ([]byte, error) {
	a, err := call(ctx, b.names, codeRoute, map[string]string{"topic": topic}, nil)
	if err = errors.Join(err, a.error()); err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	return a.body, nil
}

func (b *wire) queues(ctx context.Context, topic string) (int, error) {
	route, err := b.route(ctx, topic)
	if err != nil {
		return 0, err
	}
	n, err := find(queuesPattern, route)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(n)
}

func (b *wire) createTopic(ctx context.Context, topic string, queues int) error {
	n := strconv.Itoa(queues)
	_, err := b.ask(ctx, codeCreateTopic, map[string]string{
		"topic": topic, "defaultTopic": "TBW102", "readQueueNums": n, "writeQueueNums": n, "perm": "6",
		"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
	})
	if err != nil {
		return fmt.Errorf("creating topic %s: %w", topic, err)
	}
	// The broker tells the name server in its own time.
	return eventually(ctx, "the route of "+topic, func() (bool, error) {
		has, err := b.queues(ctx, topic)
		return has == queues, err
	})
}

func (b *wire) deleteTopic(ctx context.Context, topic string) error {
	_, err := b.ask(ctx, codeDeleteTopic, map[string]string{"topic": topic})
	if err == nil {
		_, err = call(ctx, b.names, codeDropRoute, map[string]string{"topic": topic}, nil)
	}
	return err
}

func (b *wire) messages(ctx context.Context, topic string, n int) (all []*primitive.MessageExt, err error) {
	const suspend, subscribed = 2, 4 // wait for messages; the subscription is here, not in a heart beat
	for len(all) < n {
		a, err := call(ctx, b.addr, codePull, map[string]string{
			"consumerGroup": "e2e-reader", "topic": topic, "queueId": "0", "queueOffset": strconv.Itoa(len(all)), "maxMsgNums": "32",
			"sysFlag": strconv.Itoa(suspend | subscribed), "commitOffset": "0", "suspendTimeoutMillis": "15000",
			"subscription": "*", "subVersion": "0", "expressionType": "TAG",
		}, nil)
		if err == nil && a.Code != statusNothingNew {
			err = a.error()
		}
		if err != nil {
			return nil, fmt.Errorf("waiting for %d messages in %s, which has %d: %w", n, topic, len(all), err)
		}
		all = append(all, primitive.DecodeMessage(a.body)...)
	}
	return all, nil
}

// offset asks for one figure of each queue of a topic, and returns their sum.
func (b *wire) offset(ctx context.Context, code int, group, topic string) (sum int64, err error) {
	queues, err := b.queues(ctx, topic)
	if err != nil {
		return 0, err
	}
	for id := range queues {
		a, err := call(ctx, b.addr, code, map[string]string{"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(id)}, nil)
		if err == nil && a.Code == statusOffsetUnknown {
			continue // the group has never committed
		}
		if err = errors.Join(err, a.error()); err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(a.Fields["offset"], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (b *wire) stored(ctx context.Context, topic string) (int64, error) {
	return b.offset(ctx, codeMaxOffset, "", topic)
}

// members are the group's, in JSON; none, if it has none.
func (b *wire) members(ctx context.Context, group string) ([]byte, error) {
	a, err := call(ctx, b.addr, codeListMembers, map[string]string{"consumerGroup": group}, nil)
	if a.Code == statusError {
		return nil, err // it says so of a group without members
	}
	return a.body, errors.Join(err, a.error())
}

func (b *wire) awaitMembers(ctx context.Context, group string, n int) error {
	return eventually(ctx, fmt.Sprintf("%d members of %s", n, group), func() (bool, error) {
		members, err := b.members(ctx, group)
		return err == nil && len(clientIDs.FindAll(members, -1)) == n, err
	})
}

func (b *wire) rewind(ctx context.Context, group, topic string) error {
	if err := b.awaitMembers(ctx, group, 0); err != nil {
		return err
	}
	queues, err := b.queues(ctx, topic)
	if err != nil {
		return err
	}
	seen := 0
	return eventually(ctx, "the group's offsets", func() (bool, error) {
		// What its members saved last, without waiting for an answer, may still be on its way.
		n, err := b.offset(ctx, codeQueryOffset, group, topic)
		if err != nil || n == 0 {
			seen++
			return err == nil && seen > 1, err
		}
		seen = 0
		for id := range queues {
			_, failed := b.ask(ctx, codeCommitOffset, map[string]string{
				"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(id), "commitOffset": "0",
			})
			err = errors.Join(err, failed)
		}
		return false, err
	})
}

// eventually asks again and again until cond holds. It is for what the broker gives no signal of; everything else waits for the journal.
func eventually(ctx context.Context, what string, cond func() (bool, error)) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := cond()
		if ok {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx)), err)
		}
	}
}
