package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	progressEvery = time.Second
	lookEvery     = 100 * time.Millisecond // at what is still to come
)

// produceAndWait sends the orders, and waits until each copy of them is acknowledged or dead-lettered. That ctx ends before is no error.
func produceAndWait(ctx context.Context, cfg *config, orders []sale, books *ledger, t *tally, to io.Writer) error {
	stop, err := readDeadLetters(cfg, books)
	if err != nil {
		return err
	}
	defer func() { _ = cfg.shutDown(cfg.deadLetterGroup(), "dead-letters", stop) }()
	p, err := newProducer(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = p.client.Shutdown() }()

	sendCtx, cancel := context.WithCancel(ctx)
	sent := make(chan error, 1)
	var sending sync.WaitGroup
	sending.Go(func() { sent <- p.run(sendCtx, orders) })
	defer func() { cancel(); sending.Wait() }()

	var copies []string
	for i := range orders {
		copies = append(copies, orders[i].copies()...)
	}
	line := newProgress(to, t)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for all := false; ; {
		select {
		case err := <-sent:
			all = true
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-tick.C:
		}
		if err := books.refresh(); err != nil {
			return err
		}
		open, dead := books.standing(copies)
		unchanged := "nothing comes"
		if all {
			unchanged = fmt.Sprintf("%d messages wait for their next delivery", open)
		}
		line.show(fmt.Sprintf("sent %d of %d, settled %d, dead-lettered %d; ", p.sent.Load(), len(copies), len(copies)-open, dead), unchanged)
		if all && (open == 0 || ctx.Err() != nil) {
			return nil
		}
	}
}

// watch shows a member's progress until ctx ends.
func watch(ctx context.Context, t *tally, to io.Writer) {
	line := newProgress(to, t)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			line.show("", "nothing comes")
		case <-ctx.Done():
			return
		}
	}
}

// A progress shows a line a second.
type progress struct {
	to    io.Writer
	tally *tally
	began time.Time
	shown time.Duration
	last  string
}

func newProgress(to io.Writer, t *tally) *progress {
	return &progress{to: to, tally: t, began: time.Now()}
}

// show shows what is known and the tally, or something else if nothing has changed, once the time for a line has come.
func (p *progress) show(known, unchanged string) {
	since := time.Since(p.began)
	if since-p.shown < progressEvery-lookEvery/2 {
		return
	}
	p.shown = since
	c := p.tally.read()
	line := fmt.Sprintf("%sdelivered %d, run %d, suppressed %d, sent back %d", known, c.delivered, c.run, c.suppressed, c.inFlight+c.retried+c.withMates)
	if line == p.last {
		line = unchanged
	} else {
		p.last = line
	}
	fmt.Fprintf(p.to, "%4.0fs  %s\n", since.Seconds(), line)
}
