package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// The broker goes down after a producer's message came and before its answer did, and is up again with or without that message: the producer sends it
// again, and it runs once. What was done before does not run again, though the group's progress may be lost as well.
func TestBrokerRestarts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how    rmqtest.Restart
		copies int // of the producer's message
	}{
		"KeepsTheMessage": {rmqtest.Restart{}, 2},
		"LosesTheMessage": {rmqtest.Restart{Crash: true}, 1},
		"LosesProgress":   {rmqtest.Restart{Crash: true, LoseOffsets: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, setting{restarts: true}, func(s *story) {
				r := s.broker.road(s)
				s.join("a", s.does(succeed))
				s.send("before")
				s.await(acknowledged, "before")
				s.leaveAll(s.ctx)
				s.must(s.broker.awaitMembers(s.ctx, s.group, 0))

				s.startProducer(r.names, producer.WithSendMsgTimeout(impatience), producer.WithRetry(5))
				m, sent := s.message("order-1"), make(chan error, 1)
				lose := r.loseAnswer
				if c.copies == 1 {
					lose = r.loseRequest
				}
				lost := lose(rmqtest.Send)
				go func() { sent <- s.sendUntilTaken(m) }()
				s.must(lost(s.ctx), r.restart(s.ctx, s.topic, c.how), <-sent)
				s.copies["order-1"] = c.copies
				if c.how.LoseOffsets {
					s.copies["before"]++
				}
				s.join("b", s.does(succeed))
				s.await(acknowledged, "order-1", c.copies)
				s.want(1, started, "order-1")
				s.want(1, started, "before")
			})
		})
	}
}

// The broker dies and comes up under a member whose handler runs. The member is back by itself; the message may come again, and does not run.
func TestBrokerRestartsInMidHandler(t *testing.T) {
	play(t, setting{queues: 2, restarts: true}, func(s *story) {
		gate := make(chan struct{})
		s.join("a", s.does(hold(gate)))
		s.settle("a", "a")
		s.send("order-1")
		s.await(started, "order-1")
		s.must(s.broker.restart(s.ctx, s.topic, rmqtest.Restart{Crash: true, LoseOffsets: true}))
		s.must(s.broker.awaitMembers(s.ctx, s.group, 1))
		close(gate)
		s.await(acknowledged, "order-1")
		s.send("order-2")
		s.await(acknowledged, "order-2")
		s.want(1, started, "order-1")
	})
}

// sendUntilTaken sends a message as often as it takes, as a producer does that is not to lose it: its client gives up sooner than a broker is up again.
func (s *story) sendUntilTaken(m *primitive.Message) error {
	return eventually(s.ctx, "the broker to take "+nameOf(m), func() (bool, error) {
		_, err := s.producer.SendSync(s.ctx, m)
		return err == nil, err
	})
}

func (b *inProcess) restart(ctx context.Context, _ string, how rmqtest.Restart) error {
	return b.broker.Restart(ctx, how)
}

// The real broker that may be restarted is a set of servers of its own, which scripts/servers.sh stops and starts.
const restartableSet = "rocketmq-restart"

var restartable sync.Mutex

// haveToOneself waits for the other stories that restart that broker.
func haveToOneself(t *testing.T) {
	restartable.Lock()
	t.Cleanup(restartable.Unlock)
}

// servers calls the script. A broker that starts is hard work for the machine, and the stories that are played meanwhile have leases to renew: it is
// to yield to them.
func servers(ctx context.Context, args ...string) error {
	said, err := exec.CommandContext(ctx, "nice", append([]string{"../../scripts/servers.sh"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("servers.sh %s: %w\n%s", strings.Join(args, " "), err, said)
	}
	return nil
}

// restart has the broker end in good order, which takes it a quarter of a minute, or kills it.
func (b *rocketMQ) restart(ctx context.Context, topic string, how rmqtest.Restart) error {
	config, err := b.ask(ctx, codeConfig, nil)
	if err != nil {
		return err
	}
	store, err := find(storePattern, config.body)
	if err != nil {
		return err
	}
	verb := "stop"
	if how.Crash {
		verb = "kill"
	}
	if err := servers(ctx, verb, restartableSet, "broker"); err != nil {
		return err
	}
	if how.LoseOffsets { // of all groups: there is no other
		for _, name := range []string{"consumerOffset.json", "consumerOffset.json.bak"} {
			if err := os.Remove(filepath.Join(store, "config", name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	if err := servers(ctx, "up", restartableSet); err != nil {
		return err
	}
	return eventually(ctx, "the route of "+topic, func() (bool, error) {
		n, err := b.queues(ctx, topic)
		return n > 0, err
	})
}

var storePattern = regexp.MustCompile(`(?m)^storePathRootDir=(.+)$`)
