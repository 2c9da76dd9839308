package janitor

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

const (
	// probeGroup is no consumer group's name, since RocketMQ allows no dot in it: a probe's key is never a message's.
	probeGroup = "rmqdedup.janitor"
	// probeLease is how long a probe's claim stays if the process dies before it releases it; the next sweep clears it.
	probeLease = 10 * time.Second
)

// A probe is a claim that is made and released for nothing but to feel what a claim feels.
type probe struct {
	took time.Duration
	err  error
}

// send makes one probe. Its key is random: the probes of several janitors do not meet, and its row lies anywhere in the table, as a
// message's does.
func (s *sweep) send(ctx context.Context) (p probe) {
	defer func() {
		if v := recover(); v != nil {
			p.err = &rmqdedup.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	owner := rmqdedup.NewOwner()
	reqs := []rmqdedup.Request{{
		Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeGroup, probeGroup, "", "", owner.String()),
		Owner: owner, Lease: probeLease, MessageID: "probe",
	}}
	begin := time.Now()
	err := s.apply(ctx, rmqdedup.OpAcquire, reqs)
	// Whatever the answer was: a lost one may have left a claim behind, and so may a sweep that is called off.
	err2 := s.apply(context.WithoutCancel(ctx), rmqdedup.OpRelease, reqs)
	p.took = time.Since(begin)
	if p.err = err; err == nil {
		p.err = err2
	}
	return p
}

// apply calls an operation of the store for one request, within half of a statement's time, so that a probe ends when its batch does.
func (s *sweep) apply(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout/2)
	defer cancel()
	answers, err := rmqdedup.Do(ctx, s.store, op, reqs)
	switch {
	case err != nil:
		return err
	case len(answers) != len(reqs):
		return fmt.Errorf("janitor: the store answered %d of %d requests", len(answers), len(reqs))
	}
	return answers[0].Err
}

// listen measures what the quiet table needs, once a sweep, when there turned out to be something to do.
func (s *sweep) listen(ctx context.Context) {
	if s.listened {
		return
	}
	s.listened = true
	for range quietProbes {
		if ctx.Err() != nil || s.overTime() || !s.hearQuiet(ctx) {
			return
		}
	}
}

// hearQuiet makes one probe while nothing of ours runs.
func (s *sweep) hearQuiet(ctx context.Context) (ok bool) {
	p := s.send(ctx)
	if p.err == nil {
		s.pace.quietened(p.took)
	}
	s.report.IdleProbe = s.pace.idle()
	return p.err == nil
}

// beside starts a probe that runs beside a batch, and returns what waits for it and passes on what it felt. A probe that failed
// says that the store has trouble enough.
func (s *sweep) beside(ctx context.Context) (wait func()) {
	if !s.listened {
		return func() {}
	}
	felt := make(chan probe, 1)
	go func() { felt <- s.send(ctx) }()
	return func() {
		p := <-felt
		s.report.LongestProbe = max(s.report.LongestProbe, p.took)
		switch {
		case ctx.Err() != nil: // called off; it says nothing of the store
		case p.err != nil || !s.pace.measured():
			s.pace.giveWay()
		default:
			s.pace.felt(p.took)
		}
	}
}
