package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// inProcess is the broker that this module has for its users' tests. Where it differs from the real one, the real one is right.
type inProcess struct {
	wire
	broker *rmqtest.Broker
}

func openInProcess(t *testing.T, _ setting) broker {
	t.Helper()
	var levels []time.Duration
	for i := range 18 {
		levels = append(levels, time.Duration(i+1)*time.Second)
	}
	b, err := rmqtest.Start(rmqtest.Config{DelayLevels: levels, LockLife: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &inProcess{wire{b.Addr(), b.Addr(), levels}, b}
}

func (*inProcess) lacks() map[ability]string { return nil }

func (b *inProcess) awaitMembers(ctx context.Context, group string, n int) error {
	return b.broker.WaitForMembers(ctx, group, n)
}

func (b *inProcess) rewind(ctx context.Context, group, topic string) error {
	err := b.broker.WaitForMembers(ctx, group, 0)
	b.broker.SetOffset(group, topic, 0)
	return err
}

func (b *inProcess) consumeDirectly(ctx context.Context, group, instance string, m *primitive.MessageExt) (directResult, error) {
	for _, has := range b.broker.Messages(m.Topic) {
		if has.CommitLogOffset == m.CommitLogOffset {
			r, err := b.broker.ConsumeDirectly(ctx, group, instance, has)
			return directResult{r.Result, r.Remark}, err
		}
	}
	return directResult{}, fmt.Errorf("there is no such message in %s", m.Topic)
}
