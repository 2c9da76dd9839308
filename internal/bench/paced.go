package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A paced cell has the producer send half of what the plain listener can consume, and looks whether the wrapped listener falls behind.
type paced struct {
	store string
	work  time.Duration
}

const (
	consumedOfSent = "consumed/sent"
	backlogMessage = "backlog-msgs"

	// pacedRounds is how much longer the rounds are, since a backlog takes time to grow.
	pacedRounds = 8
	// paceEvery is how often the producer sends what is due.
	paceEvery = 5 * time.Millisecond
	// settleTime is from the first message to the time at which the backlog is looked at.
	settleTime = 300 * time.Millisecond
)

func (c paced) cell() cell {
	return cell{fmt.Sprintf("paced/store=%s/batch=1/work=%v", c.store, c.work), c.open, []row{{
		"consumed : sent, at half of plain", backlogMessage,
		func(_, product figures) float64 { return product[consumedOfSent] }, neverBelow(0.99),
	}}}
}

func (c paced) open(ctx context.Context, s *stage) (pair, error) {
	t, err := newStateTable(ctx, s, c.store)
	if err != nil {
		return pair{}, err
	}
	b, err := newBroker(ctx, s)
	if err != nil {
		return pair{}, err
	}
	plain := &listener{broker: b, order: order{NameServer: b.nameServer, Handlers: consumerHandlers, Batch: 1, Work: c.work}}
	product := func(ctx context.Context, d time.Duration) (figures, error) {
		if plain.perSecond == 0 { // the product's turn may be first
			if _, err := plain.measure(ctx, d); err != nil {
				return nil, err
			}
		}
		p := &pace{broker: b, order: plain.order, perSecond: plain.perSecond / 2, time: pacedRounds * d}
		p.order.Store = t.url()
		return p.run(ctx)
	}
	return pair{plain.measure, product}, nil
}

// A pace is one run of a producer and a consumer at the same time.
type pace struct {
	broker    *broker
	order     order
	perSecond float64
	time      time.Duration

	sent []sample
}

func (p *pace) run(ctx context.Context) (_ figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, consumeTime+p.time)
	defer cancel()
	total := queues + int(p.perSecond*(p.time+settleTime).Seconds()) + 1
	if p.order.Topic, err = p.broker.newTopic(ctx); err != nil {
		return nil, err
	}
	p.order.Group, p.order.Messages, p.order.Probes = p.broker.newGroup(), total, queues
	c, err := p.order.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if ended := c.end(); err == nil {
			err = ended
		}
	}()
	for i := range queues { // one a queue
		if err := p.broker.send(ctx, p.order.Topic, i, 1); err != nil {
			return nil, err
		}
	}
	if _, err := c.next(); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := p.produce(ctx, begin, total); err != nil {
		return nil, err
	}
	c.stop()
	r, err := c.next()
	if err != nil {
		return nil, err
	}
	return growth(window(p.sent, begin.Add(settleTime), begin.Add(settleTime+p.time)), r.Progress)
}

// produce sends messages up to total at the pace, some each time, and notes when.
func (p *pace) produce(ctx context.Context, begin time.Time, total int) error {
	tick := time.NewTicker(paceEvery)
	defer tick.Stop()
	sent := queues
	p.sent = []sample{{begin, sent}}
	for sent < total {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		due := min(total, queues+int(p.perSecond*time.Since(begin).Seconds()))
		if err := p.sendAll(ctx, sent, due); err != nil {
			return err
		}
		sent = due
		p.sent = append(p.sent, sample{time.Now(), sent})
	}
	return nil
}

// sendAll sends the messages from first to end-1, if there are any, in parts at the same time.
func (p *pace) sendAll(ctx context.Context, first, end int) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	const part = 32
	for from := first; from < end; from += part {
		wg.Go(func() {
			if err := p.broker.send(ctx, p.order.Topic, from, min(part, end-from)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// window are the samples of that time.
func window(all []sample, from, to time.Time) (within []sample) {
	for _, s := range all {
		if !s.At.Before(from) && s.At.Before(to) {
			within = append(within, s)
		}
	}
	return within
}

// growth compares the backlog of the last third with that of the first, by their medians: what was sent between them, and how much of that was consumed.
func growth(sent, consumed []sample) (figures, error) {
	third := len(sent) / 3
	if third == 0 || len(consumed) == 0 {
		return nil, errors.New("there was no time to see a backlog; make -round longer")
	}
	backlog := func(part []sample) (backlog, sent float64) {
		var backlogs, sents []float64
		for _, s := range part {
			backlogs = append(backlogs, float64(s.Runs-runsAt(consumed, s.At)))
			sents = append(sents, float64(s.Runs))
		}
		return median(backlogs), median(sents)
	}
	early, sentEarly := backlog(sent[:third])
	late, sentLate := backlog(sent[len(sent)-third:])
	if sentLate <= sentEarly {
		return nil, errors.New("nothing was sent while the backlog was looked at; make -round longer")
	}
	return figures{consumedOfSent: 1 - (late-early)/(sentLate-sentEarly), backlogMessage: late}, nil
}

// runsAt is what the last sample at or before that time says.
func runsAt(samples []sample, at time.Time) (runs int) {
	for _, s := range samples {
		if s.At.After(at) {
			break
		}
		runs = s.Runs
	}
	return runs
}
