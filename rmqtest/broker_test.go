package rmqtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// Not parallel, so that no other test's client is at work, apart from goroutines that earlier ones left behind.
func TestNoErrorsInNormalUse(t *testing.T) {
	before := clientErrors.count()
	var addr string
	t.Run("use", func(t *testing.T) {
		b := start(t, prompt)
		addr = b.Addr()
		orders := topic(t, b, "orders", 4)
		p := newProducer(t, b)
		w := newWorker(t, b, "g", orders, nil)
		newWorker(t, b, "g", orders, nil).shutDown(t)
		got := make(chan *primitive.MessageExt, 10)
		newWorker(t, b, "retrying", orders, failing(got, 0), consumer.WithMaxReconsumeTimes(1))
		send(t, p, orders, "a", "b")
		w.take(t, 2)
		takeN(t, got, 4)
		_, err := b.WaitForMessages(ctx(t), rmqtest.DeadLetterTopic("retrying"), 2)
		must(t, err)
		must(t, b.WaitForConsumed(ctx(t), "g", orders))
		must(t, b.WaitForConsumed(ctx(t), "retrying", rmqtest.RetryTopic("retrying")))
	})
	for _, line := range clientErrors.since(before) {
		if strings.Contains(line, addr) {
			t.Error(line)
		}
	}
}

func TestConfigProblemsAllReported(t *testing.T) {
	t.Parallel()
	_, err := rmqtest.Start(rmqtest.Config{
		DelayLevels: []time.Duration{time.Second, -1}, QueuesPerTopic: 1025, LockLife: -1, LongPoll: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"DelayLevels: level 2", "QueuesPerTopic", "LockLife", "LongPoll"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
}

func TestCreateTopic(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	must(t, b.CreateTopic("orders", 2))
	must(t, b.CreateTopic("orders", 4))
	for name, queues := range map[string]int{"orders": 2, "": 1, "no blanks": 1, "none": 0, "many": 1025, strings.Repeat("x", 128): 1} {
		if b.CreateTopic(name, queues) == nil {
			t.Errorf("topic %q with %d queues was made", name, queues)
		}
	}
}

func TestInstanceNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 3 {
		b := start(t, rmqtest.Config{})
		for range 3 {
			seen[b.InstanceName()] = true
		}
	}
	equal(t, "names", len(seen), 9)
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := b.WaitForMessages(short, "orders", 1)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 messages in orders") {
		t.Errorf("got %v", err)
	}
	ended := make(chan error)
	go func() { ended <- b.WaitForMembers(t.Context(), "g", 1) }()
	must(t, b.Close())
	if err := <-ended; !errors.Is(err, rmqtest.ErrClosed) {
		t.Errorf("got %v", err)
	}
	must(t, b.Close())
}

// Closing a broker under its clients ends all that it runs, and they take it as one that is down.
func TestCloseUnderClients(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 4)
	p := newProducer(t, b, impatient)
	w := newWorker(t, b, "g", orders, nil)
	must(t, b.WaitForPulls(ctx(t), "g", orders))
	began := time.Now()
	must(t, b.Close())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := p.SendSync(ctx(t), message(orders, "x")); err == nil {
		t.Error("a closed broker took a message")
	}
	_ = w
}

// Producers and consumers of several brokers at once: every message is handled, and none by another broker's consumers.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const brokers, producers, consumers, each = 3, 3, 3, 200
	for range brokers {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			b := start(t, prompt)
			orders := topic(t, b, "orders", 4)
			var handled sync.Map
			var failures atomic.Int64
			for range consumers {
				newWorker(t, b, "g", orders, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
					if failures.Add(1)%10 == 0 {
						return consumer.ConsumeRetryLater, nil
					}
					handled.Store(string(msgs[0].Body), true)
					return consumer.ConsumeSuccess, nil
				})
			}
			var sending sync.WaitGroup
			for id := range producers {
				p := newProducer(t, b)
				sending.Go(func() {
					for i := range each {
						if _, err := p.SendSync(ctx(t), message(orders, fmt.Sprint(id, "-", i))); err != nil {
							t.Error(err)
						}
					}
				})
			}
			sending.Wait()
			must(t, b.Wait(ctx(t), "all messages to be handled", func() bool {
				n := 0
				handled.Range(func(any, any) bool { n++; return true })
				return n == producers*each
			}))
			must(t, b.WaitForConsumed(ctx(t), "g", orders))
			must(t, b.WaitForConsumed(ctx(t), "g", rmqtest.RetryTopic("g")))
		})
	}
}
