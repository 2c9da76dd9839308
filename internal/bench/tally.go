package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A tally is the handler of a consumer that is measured, and what it has counted.
type tally struct {
	order *order
	seen  []atomic.Bool // by the messages' numbers
	first atomic.Int64  // when the first call came, in Unix nanoseconds
	runs  atomic.Int64
	phase atomic.Int32
	goal  atomic.Int64 // of runs, at which measuring ends

	begun, ended moment
	ready        chan struct{} // closed when the probes have been run
	done         chan struct{} // closed when measuring has ended
	failed       chan error    // has room for the first failure

	handling, claiming, completing mean

	progress []sample
}

// Phases of a tally: before what is measured, while, and after.
const (
	before int32 = iota
	measuring
	after
)

// A moment is one at which the tally is read.
type moment struct {
	at   time.Time
	cpu  time.Duration
	runs int
}

// A mean is one of durations.
type mean struct{ sum, n atomic.Int64 }

func (m *mean) add(d time.Duration) {
	m.sum.Add(int64(d))
	m.n.Add(1)
}

func (m *mean) value() time.Duration { return time.Duration(m.sum.Load() / max(m.n.Load(), 1)) }

func newTally(o *order) *tally {
	return &tally{
		order: o, seen: make([]atomic.Bool, o.Messages),
		ready: make(chan struct{}), done: make(chan struct{}), failed: make(chan error, 1),
	}
}

// handle is the listener, plain or to be wrapped.
func (t *tally) handle(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	begin := time.Now()
	t.first.CompareAndSwap(0, begin.UnixNano())
	if t.order.Work > 0 {
		time.Sleep(t.order.Work * time.Duration(len(msgs)))
	}
	for _, m := range msgs {
		if err := t.note(m); err != nil {
			t.fail(err)
		}
	}
	t.add(&t.handling, begin)
	t.count(len(msgs))
	return consumer.ConsumeSuccess, nil
}

// add adds the time that has passed to a mean, if it is being measured.
func (t *tally) add(m *mean, begin time.Time) {
	if t.phase.Load() == measuring {
		m.add(time.Since(begin))
	}
}

// note notes that a message is run, which it is to be once.
func (t *tally) note(m *primitive.MessageExt) error {
	i, err := numberOf(m)
	if err != nil || i < 0 || i >= len(t.seen) {
		return fmt.Errorf("message %s has the key %q, which was not sent", m.MsgId, m.GetKeys())
	}
	if t.seen[i].Swap(true) {
		return fmt.Errorf("message %d was run twice", i)
	}
	return nil
}

// count counts messages, and begins and ends what is measured.
func (t *tally) count(n int) {
	now := int(t.runs.Add(int64(n)))
	passed := func(figure int) bool { return now-n < figure && figure <= now } // true for one call alone
	if passed(t.order.Probes) {
		close(t.ready)
	}
	if t.order.Count == 0 {
		return
	}
	// The handlers start together, so what is measured begins where all of them have just been, when the client has filled its cache.
	all := now/t.order.stride() > (now-n)/t.order.stride()
	if all && t.phase.Load() == before && t.sinceFirst() >= t.order.Lead && t.phase.CompareAndSwap(before, measuring) {
		t.begun = t.read(now)
		t.goal.Store(int64(now + t.order.Count))
	}
	goal := int(t.goal.Load()) // 0 until it is known when measuring has begun
	last := now == t.order.Messages
	switch {
	case goal == 0 && last:
		t.fail(fmt.Errorf("all %d messages had been run before measuring began", now))
	case goal > 0 && (now >= goal || last || all && now > t.begun.runs && time.Since(t.begun.at) >= t.order.Most):
		if t.phase.CompareAndSwap(measuring, after) {
			t.ended = t.read(now)
			close(t.done)
		}
	}
}

func (t *tally) sinceFirst() time.Duration { return time.Since(time.Unix(0, t.first.Load())) }

// read reads the clocks.
func (t *tally) read(runs int) moment {
	cpu, err := processorTime()
	if err != nil {
		t.fail(err)
	}
	return moment{at: time.Now(), cpu: cpu, runs: runs}
}

// timed times the store's part in a message.
func (t *tally) timed(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	begin := time.Now()
	answers, err := rmqdedup.Do(ctx, next, op, reqs)
	switch op {
	case rmqdedup.OpAcquire:
		t.add(&t.claiming, begin)
	case rmqdedup.OpComplete:
		t.add(&t.completing, begin)
	default:
	}
	return answers, err
}

// fail is for what makes the measurement worthless.
func (t *tally) fail(err error) {
	select {
	case t.failed <- err:
	default:
	}
}

// wait waits until all is run that was ordered, or the consumer is told to stop, or something has failed.
func (t *tally) wait(told context.Context, ready func() error) error {
	if t.order.Count == 0 {
		return t.sample(told, ready)
	}
	select {
	case <-t.done:
		return t.failure()
	case err := <-t.failed:
		return err
	case <-told.Done():
		return fmt.Errorf("told to stop when %d messages had been run", t.runs.Load())
	}
}

// failure is what has failed so far.
func (t *tally) failure() error {
	select {
	case err := <-t.failed:
		return err
	default:
		return nil
	}
}

const sampleEvery = 10 * time.Millisecond

// sample says when the consumer is ready, and notes its progress until it is told to stop.
func (t *tally) sample(told context.Context, ready func() error) error {
	select {
	case <-t.ready:
	case err := <-t.failed:
		return err
	case <-told.Done():
		return fmt.Errorf("told to stop when %d messages had been run", t.runs.Load())
	}
	if err := ready(); err != nil {
		return err
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			t.progress = append(t.progress, sample{now, int(t.runs.Load())})
		case err := <-t.failed:
			return err
		case <-told.Done():
			return t.failure()
		}
	}
}

// consumption is what was found. It is asked for when the consumer has been shut down.
func (t *tally) consumption() consumption {
	return consumption{
		Runs: t.ended.runs - t.begun.runs, Elapsed: t.ended.at.Sub(t.begun.at), CPU: t.ended.cpu - t.begun.cpu,
		Handler: t.handling.value(), Claim: t.claiming.value(), Complete: t.completing.value(),
		Progress: t.progress,
	}
}
