package rmqdedup_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A spell is a time of bad weather between the store and some members.
type spell struct {
	kind     spellKind
	from, to time.Time
	m        *groupMember // nil: all
	work     string       // of one key only; empty: of all
	odds     float64      // how much of what passes is hit
}

type spellKind string

const (
	storeAway  spellKind = "the store is away"
	storeFlaky spellKind = "the store is flaky"
	storeSlow  spellKind = "the store is slow"
	storeFull  spellKind = "the store is full: it renews and removes, but takes nothing in"
	keyAway    spellKind = "one key's node is away"
	backAway   spellKind = "messages cannot be sent back"
)

// A passage is what becomes of one call on its way to the store and back.
type passage struct {
	out, back time.Duration // how long request and reply take
	lost      bool          // the request never arrives
	mute      bool          // the reply never arrives
	reset     bool          // and the caller learns of that at once, instead of waiting for its time limit
	full      bool          // the store refuses it
	deaf      map[int]bool  // requests that nobody answers, while the others are
	applied   bool          // though they were applied
}

func (p passage) clean() bool {
	return p.out+p.back <= 20*time.Millisecond && !p.lost && !p.mute && !p.full && len(p.deaf) == 0
}

var (
	errAwayNow  = errors.New("connection refused")
	errNoReply  = errors.New("connection reset by peer")
	errTimeIsUp = errors.New("the store's time limit is over")
	errFullUp   = errors.New("OOM command not allowed when used memory > 'maxmemory'")
	errCrashed  = errors.New("this process is no more")
)

// passage decides by the weather. The world's mutex is held.
func (m *groupMember) passage(op rmqdedup.Op, reqs []rmqdedup.Request) passage {
	w := m.w
	about := fmt.Sprint(m.name, op, reqs[0].Key.Value)
	m.watch.sentCalls[about]++
	r := w.plan.roll("passage", about, m.watch.sentCalls[about])
	p := passage{out: r.span(0, 5*time.Millisecond), back: r.span(0, 5*time.Millisecond)}
	if r.chance(0.3) {
		p.out, p.back = 0, 0
	}
	limit := w.plan.limit
	for _, s := range w.spells(m) {
		if s.kind == keyAway {
			for i := range reqs {
				if x := w.workOf[reqs[i].Key.Digest()]; x != nil && x.name == s.work {
					if p.deaf == nil {
						p.deaf = make(map[int]bool)
					}
					p.deaf[i], p.applied = true, r.chance(0.2)
				}
			}
			continue
		}
		if !r.chance(s.odds) {
			continue
		}
		switch s.kind {
		case storeFull:
			p.full = op == rmqdedup.OpAcquire || op == rmqdedup.OpComplete
			continue
		case storeSlow:
			p.out, p.back = r.span(0, limit), r.span(0, limit/2)
			continue
		}
		lost := r.chance(0.6)
		switch {
		case lost:
			p.lost, p.reset = true, r.chance(0.7)
		case r.chance(0.6):
			p.mute, p.reset = true, r.chance(0.5)
		default:
			p.out = limit + r.span(0, 3*limit) // it arrives when nobody waits for it any more
		}
	}
	return p
}

// spells are those that a member's calls pass through now. The world's mutex is held.
func (w *world) spells(m *groupMember) (now []spell) {
	for _, s := range w.weather {
		if t := time.Now(); s.kind != backAway && !w.healed && !t.Before(s.from) && t.Before(s.to) && (s.m == nil || s.m == m) {
			now = append(now, s)
		}
	}
	return now
}

// wire is a member's way to the store.
func (m *groupMember) wire(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	w, call, sent := m.w, callOf(ctx), time.Now()
	var p passage
	w.locked(func() {
		m.watch.send(m, call, op, reqs)
		p = m.passage(op, reqs)
	})
	answers, err := m.carry(ctx, next, op, reqs, p)
	w.locked(func() {
		m.watch.receive(m, call, op, reqs, answers, err, sent, p.clean())
	})
	return answers, err
}

// carry takes a call to the store and its answers back, if the passage lets it. It honours its context, and has the store's own time limit.
func (m *groupMember) carry(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request, p passage) ([]rmqdedup.Answer, error) {
	w, limit := m.w, m.w.plan.limit
	// The request is as it was when it was sent, whatever becomes of the caller.
	reqs = append([]rmqdedup.Request(nil), reqs...)
	for i := range reqs {
		reqs[i].Grace = w.plan.grace
	}
	if m.crashed() {
		return nil, m.hang(ctx, 0)
	}
	if p.lost {
		if p.reset {
			return nil, fmt.Errorf("%v: %w", op, errAwayNow)
		}
		return nil, m.hang(ctx, limit)
	}
	if p.out > limit {
		m.arriveLater(next, op, reqs, p.out)
		return nil, m.hang(ctx, limit)
	}
	if p.out > 0 && !w.wait(p.out, ctx.Done(), m.dead) {
		if !m.crashed() {
			m.arriveLater(next, op, reqs, p.out)
		}
		return nil, m.hang(ctx, 0)
	}
	if p.full {
		return nil, fmt.Errorf("%v: %w", op, errFullUp)
	}
	answers, err := m.apply(ctx, next, op, reqs, p)
	switch {
	case p.mute && p.reset:
		return nil, fmt.Errorf("%v: %w", op, errNoReply)
	case p.mute || p.out+p.back > limit:
		return nil, m.hang(ctx, limit-p.out)
	case p.back > 0 && !w.wait(p.back, ctx.Done(), m.dead), m.crashed():
		return nil, m.hang(ctx, 0)
	}
	return answers, err
}

// hang is the end of a call that is not answered: at its time limit, when its context ends, or for a process that is no
// more, never. At once if the limit is zero and it lives.
func (m *groupMember) hang(ctx context.Context, limit time.Duration) error {
	if limit > 0 {
		m.w.wait(limit, ctx.Done(), m.dead)
	}
	if m.crashed() {
		select {
		case <-ctx.Done():
		case <-m.w.end:
		}
		return errCrashed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errTimeIsUp
}

// arriveLater applies a request when its sender has given up.
func (m *groupMember) arriveLater(next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request, after time.Duration) {
	go func() {
		if !m.w.wait(after, nil, nil) {
			return
		}
		m.w.locked(func() {
			m.w.note("%s: a late %v of %v arrives", m.name, op, m.w.keyNames(reqs))
			m.w.saw("request arrived late")
		})
		_, _ = rmqdedup.Do(context.Background(), next, op, reqs)
	}()
}

// apply has the store do what it is asked, but for the requests that nobody answers.
func (m *groupMember) apply(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request, p passage) ([]rmqdedup.Answer, error) {
	ctx = context.WithoutCancel(ctx)
	answers := make([]rmqdedup.Answer, len(reqs))
	for i := range reqs {
		if p.deaf[i] && !p.applied {
			answers[i] = rmqdedup.Answer{Err: errAwayNow}
			continue
		}
		a, err := rmqdedup.Do(ctx, next, op, reqs[i:i+1])
		switch {
		case err != nil:
			return nil, err
		case p.deaf[i]:
			answers[i] = rmqdedup.Answer{Err: errNoReply}
		default:
			answers[i] = a[0]
		}
	}
	return answers, nil
}

func (w *world) keyNames(reqs []rmqdedup.Request) (names []string) {
	for i := range reqs {
		name := reqs[i].Key.String()
		if x := w.workOf[reqs[i].Key.Digest()]; x != nil {
			name = x.name
		}
		names = append(names, name)
	}
	return names
}

// How a message can be sent back.
type backWay int

const (
	backProperly backWay = iota
	backAsNormal
	backRefused
)

// sendBackReaches decides how well a send-back goes. The world's mutex is held.
func (w *world) sendBackReaches(m *groupMember, msg interface{ GetProperty(string) string }) backWay {
	for _, s := range w.weather {
		if t := time.Now(); s.kind != backAway || w.healed || t.Before(s.from) || !t.Before(s.to) || s.m != nil && s.m != m {
			continue
		}
		about := "back " + msg.GetProperty(truthProperty)
		m.watch.sentCalls[about]++
		r := w.plan.roll("send-back", m.name, about, m.watch.sentCalls[about])
		if r.chance(s.odds) {
			return pick(r, backAsNormal, backRefused)
		}
	}
	return backProperly
}
