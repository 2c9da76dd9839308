package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	rmqproducer "github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A sale is an order as its producer knows it: with what it will do about it.
type sale struct {
	id     string
	amount int
	again  bool // it is sent twice,
	late   bool // the second time some seconds later,
	sameID bool // and under the same message ID
}

const (
	// copyProperty tells the copies of an order apart for the tally, which message IDs cannot where they are the same.
	copyProperty = "COPY"
	lateBy       = 3 * time.Second
	senders      = 16
	sendAttempts = 5
)

// sentAgain is how many of the orders are.
func (c *config) sentAgain() int { return int(math.Round(float64(c.produce) * c.duplicates)) }

// makeOrders makes up the orders, by -seed. Of those that are sent again every other one is so at once, and a quarter under the same message ID.
func makeOrders(cfg *config) []sale {
	rng := rand.New(rand.NewPCG(cfg.seed, 0)) //nolint:gosec // it is to be repeatable
	orders := make([]sale, cfg.produce)
	for i := range orders {
		orders[i] = sale{id: fmt.Sprintf("%s-%07d", cfg.run, i), amount: 100 + rng.IntN(100_000)}
	}
	for n, i := range rng.Perm(cfg.produce)[:cfg.sentAgain()] {
		orders[i].again, orders[i].late, orders[i].sameID = true, n%2 == 1, n%8 >= 6
	}
	return orders
}

// copies are the names of an order's copies.
func (s *sale) copies() []string {
	if s.again {
		return []string{s.id + "/1", s.id + "/2"}
	}
	return []string{s.id + "/1"}
}

// works is how many pieces of work an order is: one, but if they go by message IDs as many as it has been sent under.
func (s *sale) works(key string) int {
	if key == byMessageID && s.again && !s.sameID {
		return 2
	}
	return 1
}

// A producer sends orders, as an application of which the consumer knows nothing.
type producer struct {
	cfg    *config
	client rocketmq.Producer
	sent   atomic.Int64
}

func newProducer(cfg *config) (*producer, error) {
	opts := []rmqproducer.Option{
		rmqproducer.WithNameServer(cfg.namesrv),
		rmqproducer.WithInstanceName(cfg.instance("producer")),
		rmqproducer.WithGroupName("order-producer"),
	}
	if cfg.mode == rmqdedup.Ordered {
		opts = append(opts, rmqproducer.WithQueueSelector(rmqproducer.NewHashQueueSelector())) // an order's messages to one queue
	}
	client, err := rocketmq.NewProducer(opts...)
	if err != nil {
		return nil, fmt.Errorf("making a producer: %w", err)
	}
	if err := client.Start(); err != nil {
		return nil, fmt.Errorf("starting the producer: %w", err)
	}
	return &producer{cfg: cfg, client: client}, nil
}

// run sends all orders and returns when the last copy of the last one is sent, or with the first failure.
func (p *producer) run(ctx context.Context, orders []sale) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type resend struct {
		due time.Time
		*sale
		id string
	}
	late := make(chan resend, len(orders)) // in the order in which they fall due
	next := make(chan *sale)
	send := func(s *sale, copyName, id string) string {
		id, err := p.send(ctx, s, copyName, id)
		if err != nil {
			cancel(err)
		}
		return id
	}

	var first, second sync.WaitGroup
	for range senders {
		first.Go(func() {
			for s := range next {
				names := s.copies()
				id := send(s, names[0], "")
				switch {
				case !s.again:
				case s.late:
					late <- resend{time.Now().Add(lateBy), s, id}
				default:
					send(s, names[1], s.resendID(id))
				}
			}
		})
		second.Go(func() {
			for r := range late {
				select {
				case <-time.After(time.Until(r.due)):
					send(r.sale, r.copies()[1], r.resendID(r.id))
				case <-ctx.Done():
				}
			}
		})
	}
	for i := range orders {
		select {
		case next <- &orders[i]:
		case <-ctx.Done():
		}
	}
	close(next)
	first.Wait()
	close(late)
	second.Wait()
	return context.Cause(ctx)
}

// resendID is the message ID of a second copy whose first one has id: "" is a new one.
func (s *sale) resendID(id string) string {
	if s.sameID {
		return id
	}
	return ""
}

// send sends one copy of an order under a message ID, or under a new one, which it returns.
func (p *producer) send(ctx context.Context, s *sale, copyName, id string) (string, error) {
	var o order
	o.Order.ID, o.Order.Amount = s.id, s.amount
	body, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	m := primitive.NewMessage(p.cfg.topic, body).WithKeys([]string{s.id}).WithShardingKey(s.id)
	m.WithProperty(copyProperty, copyName)
	m.WithProperty(primitive.PropertyUniqueClientMessageIdKeyIndex, id)
	for attempt := 1; ; attempt++ {
		_, err = p.client.SendSync(ctx, m)
		if err == nil {
			p.sent.Add(1)
			return m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex), nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if attempt == sendAttempts {
			return "", fmt.Errorf("sending order %s: %w", s.id, err)
		}
		select {
		case <-time.After(time.Duration(attempt) * 200 * time.Millisecond): // the broker is busy
		case <-ctx.Done():
		}
	}
}
