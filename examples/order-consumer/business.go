package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// An order is the body of a message.
type order struct {
	Order struct {
		ID     string `json:"id"`
		Amount int    `json:"amount"` // in cents
	} `json:"order"`
}

// business stands for what a listener does: it takes its time, sometimes fails, and has an effect that must not happen twice.
type business struct {
	cfg   *config
	books *ledger
	calls atomic.Int64
}

// handle is the listener. It is as it would be without rmqdedup.
func (b *business) handle(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	ids := make([]string, len(msgs))
	for i, m := range msgs {
		var o order
		if err := json.Unmarshal(m.Body, &o); err != nil {
			return consumer.ConsumeRetryLater, fmt.Errorf("message %s is no order: %w", m.MsgId, err)
		}
		ids[i] = o.Order.ID
	}
	if b.calls.Add(1) == int64(b.cfg.crashAfter) {
		crash()
	}
	select {
	case <-time.After(b.cfg.handleTime):
	case <-ctx.Done(): // the claim is lost, or the process is being shut down
		return consumer.ConsumeRetryLater, context.Cause(ctx)
	}
	if rand.Float64() < b.cfg.fail { //nolint:gosec // nobody is to be kept from guessing it
		return consumer.ConsumeRetryLater, nil
	}
	if err := b.books.succeeded(ids); err != nil {
		return consumer.ConsumeRetryLater, err
	}
	return consumer.ConsumeSuccess, nil
}

// crash ends the process as kill -9 does.
func crash() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}
