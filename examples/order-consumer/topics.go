package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// topics are those that a run needs: the orders', the group's retry topic and its dead-letter topic.
//
// The retry topic would come into being by itself, but the client looks for it every 30 seconds, and a new group's first retry would take as long. The
// dead-letter topic would come with the first dead letter, too late for a consumer that is to read it.
type topics struct {
	cfg     *config
	admin   admin.Admin
	brokers []string
	names   []string
}

// makeTopics makes those topics that do not exist. What exists is left as it is.
func makeTopics(ctx context.Context, cfg *config) (_ *topics, err error) {
	t := &topics{cfg: cfg, names: []string{cfg.topic, "%RETRY%" + cfg.group, cfg.deadLetterTopic()}}
	if t.admin, err = admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(cfg.namesrv))); err != nil {
		return nil, fmt.Errorf("making an admin client: %w", err)
	}
	if err := t.findBrokers(ctx); err != nil {
		t.close()
		return nil, err
	}
	for i, name := range t.names {
		queues := 1
		if i == 0 {
			queues = cfg.queues()
		}
		if err := t.make(ctx, name, queues); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

// queues is how many the topic is made with. An ordered consumer has one handler a queue.
func (c *config) queues() int {
	if c.mode == rmqdedup.Ordered {
		return c.handlers
	}
	return 8
}

// findBrokers finds the brokers of the topic, if it exists, and those that there are, if not.
func (t *topics) findBrokers(ctx context.Context) (err error) {
	// The second exists where brokers make topics on demand, the third everywhere.
	for _, topic := range []string{t.cfg.topic, "TBW102", "SELF_TEST_TOPIC"} {
		if t.brokers, err = brokersOf(ctx, t.cfg.namesrv, topic); err != nil || len(t.brokers) > 0 {
			return err
		}
	}
	return fmt.Errorf("-namesrv %v: no broker has registered there; has one been started?", t.cfg.namesrv)
}

// make makes a topic unless it exists, and waits until the name servers know it.
func (t *topics) make(ctx context.Context, name string, queues int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for made := false; ; {
		known, err := brokersOf(ctx, t.cfg.namesrv, name)
		if err != nil || len(known) > 0 {
			return err
		}
		if !made {
			for _, broker := range t.brokers {
				if err := t.admin.CreateTopic(ctx, admin.WithTopicCreate(name), admin.WithBrokerAddrCreate(broker),
					admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues)); err != nil {
					return fmt.Errorf("making the topic %s on the broker at %s: %w", name, broker, err)
				}
			}
			made = true
			continue
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			// The client does not look at the broker's answer, so there is no better reason to give.
			return fmt.Errorf("making the topic %s: the brokers at %v have not made it: %w", name, t.brokers, ctx.Err())
		}
	}
}

// remove removes the topics, and the retry topic that the broker has made for the readers of dead letters, if the run made up their names.
func (t *topics) remove() {
	if !t.cfg.ownNames {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, name := range append(t.names, "%RETRY%"+t.cfg.deadLetterGroup()) {
		for _, broker := range t.brokers {
			err := t.admin.DeleteTopic(ctx, admin.WithTopicDelete(name), admin.WithBrokerAddrDelete(broker), admin.WithNameSrvAddr(t.cfg.namesrv))
			if err != nil {
				slog.Warn("removing a topic of this run", "topic", name, "err", err)
			}
		}
	}
}

func (t *topics) close() { _ = t.admin.Close() }
