package main

import (
	"context"
	"fmt"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func (c *config) deadLetterTopic() string { return "%DLQ%" + c.group }

// deadLetterGroup is the consumer group of its readers.
func (c *config) deadLetterGroup() string { return c.group + "-dead-letters" }

// readDeadLetters notes what comes to the group's dead-letter topic, by a consumer group of its own. A real system would page somebody.
func readDeadLetters(cfg *config, books *ledger) (stop func() error, err error) {
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(cfg.namesrv),
		consumer.WithInstance(cfg.instance("dead-letters")),
		consumer.WithGroupName(cfg.deadLetterGroup()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, fmt.Errorf("making a consumer of dead letters: %w", err)
	}
	note := func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if err := books.deadLettered(copiesOf(msgs)); err != nil {
			return consumer.ConsumeRetryLater, err
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := c.Subscribe(cfg.deadLetterTopic(), consumer.MessageSelector{}, note); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("starting the consumer of dead letters: %w", err)
	}
	return c.Shutdown, nil
}
