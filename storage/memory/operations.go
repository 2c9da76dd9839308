package memory

import (
	"context"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// An operation answers one request. The store is locked.
type operation func(s *Store, q *rmqdedup.Request, now time.Duration) rmqdedup.Answer

// Acquire implements [rmqdedup.Store].
func (s *Store) Acquire(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.each(ctx, rmqdedup.OpAcquire, reqs, acquire)
}

// Renew implements [rmqdedup.Store].
func (s *Store) Renew(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.each(ctx, rmqdedup.OpRenew, reqs, renew)
}

// Complete implements [rmqdedup.Store].
func (s *Store) Complete(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.each(ctx, rmqdedup.OpComplete, reqs, complete)
}

// Release implements [rmqdedup.Store].
func (s *Store) Release(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.each(ctx, rmqdedup.OpRelease, reqs, release)
}

// Abandon implements [rmqdedup.Store].
func (s *Store) Abandon(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.each(ctx, rmqdedup.OpAbandon, reqs, abandon)
}

// Lookup implements [rmqdedup.Store].
func (s *Store) Lookup(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.each(ctx, rmqdedup.OpLookup, reqs, lookup)
}

// Forget implements [rmqdedup.Store].
func (s *Store) Forget(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.each(ctx, rmqdedup.OpForget, reqs, forget)
}

func (s *Store) each(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request, f operation) ([]rmqdedup.Answer, error) {
	answers := make([]rmqdedup.Answer, len(reqs))
	now, err := s.lock(ctx, op.String())
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.dropExpired(now, len(reqs))
	for i := range reqs {
		answers[i] = f(s, &reqs[i], now)
	}
	return answers, nil
}

func acquire(s *Store, q *rmqdedup.Request, now time.Duration) rmqdedup.Answer {
	if err := q.ValidateLease(s.Resolution()); err != nil {
		return rmqdedup.Answer{Err: err}
	}
	r := s.find(q.Key, now)
	switch {
	case r == nil:
		r = &record{}
		r.claim(q, now)
		r.describe(q)
		if err := s.insert(r, now); err != nil {
			return rmqdedup.Answer{Err: err}
		}
		return rmqdedup.Answer{Outcome: rmqdedup.Claimed}
	case r.done:
		return rmqdedup.Answer{Outcome: rmqdedup.Done, Record: r.public(s.start)}
	case r.owner != q.Owner && now < r.until:
		return rmqdedup.Answer{Outcome: rmqdedup.InFlight, Left: r.until - now, Record: r.public(s.start)}
	}
	// What remains is the owner's own claim, its deadline past or not, or an orphan.
	a := rmqdedup.Answer{Outcome: rmqdedup.Claimed}
	if r.takenOver = r.takenOver || r.owner != q.Owner; r.takenOver {
		a = rmqdedup.Answer{Outcome: rmqdedup.TakenOver, Record: r.public(s.start)}
	}
	r.claim(q, now)
	r.describe(q)
	s.claims.fix(r)
	return a
}

func renew(s *Store, q *rmqdedup.Request, now time.Duration) rmqdedup.Answer {
	if err := q.ValidateLease(s.Resolution()); err != nil {
		return rmqdedup.Answer{Err: err}
	}
	r := s.find(q.Key, now)
	if !r.claimedBy(q.Owner) {
		return rmqdedup.Answer{Outcome: rmqdedup.Lost}
	}
	r.extend(q, now)
	s.claims.fix(r)
	return rmqdedup.Answer{Outcome: rmqdedup.Applied}
}

func complete(s *Store, q *rmqdedup.Request, now time.Duration) rmqdedup.Answer {
	if err := q.ValidateRetention(s.Resolution()); err != nil {
		return rmqdedup.Answer{Err: err}
	}
	r := s.find(q.Key, now)
	if r == nil {
		r = &record{}
		r.finish(q, now)
		r.describe(q)
		if err := s.insert(r, now); err != nil {
			return rmqdedup.Answer{Err: err}
		}
		return rmqdedup.Answer{Outcome: rmqdedup.Lost}
	}
	if r.done {
		return rmqdedup.Answer{Outcome: rmqdedup.Done, Record: r.public(s.start)}
	}
	a := rmqdedup.Answer{Outcome: rmqdedup.Lost}
	if r.claimedBy(q.Owner) {
		a.Outcome = rmqdedup.Applied
	}
	s.claims.remove(r)
	r.finish(q, now)
	r.describe(q)
	s.done.push(r)
	return a
}

func release(s *Store, q *rmqdedup.Request, now time.Duration) rmqdedup.Answer {
	r := s.find(q.Key, now)
	if !r.claimedBy(q.Owner) {
		return rmqdedup.Answer{Outcome: rmqdedup.Lost}
	}
	s.drop(r)
	return rmqdedup.Answer{Outcome: rmqdedup.Applied}
}

func abandon(s *Store, q *rmqdedup.Request, now time.Duration) rmqdedup.Answer {
	r := s.find(q.Key, now)
	if !r.claimedBy(q.Owner) || now >= r.until {
		return rmqdedup.Answer{Outcome: rmqdedup.Lost}
	}
	r.owner = rmqdedup.NewOwner()
	r.until = now
	r.gone = add(now, r.grace)
	s.claims.fix(r)
	return rmqdedup.Answer{Outcome: rmqdedup.Applied}
}

func lookup(s *Store, q *rmqdedup.Request, now time.Duration) rmqdedup.Answer {
	r := s.find(q.Key, now)
	if r == nil {
		return rmqdedup.Answer{Outcome: rmqdedup.Absent}
	}
	a := rmqdedup.Answer{Outcome: rmqdedup.Orphan, Record: r.public(s.start)}
	switch {
	case r.done:
		a.Outcome = rmqdedup.Done
	case now < r.until:
		a.Outcome, a.Left = rmqdedup.InFlight, r.until-now
	}
	return a
}

func forget(s *Store, q *rmqdedup.Request, now time.Duration) rmqdedup.Answer {
	r := s.find(q.Key, now)
	switch {
	case r == nil:
		return rmqdedup.Answer{Outcome: rmqdedup.Absent}
	case !r.done && now < r.until:
		return rmqdedup.Answer{Outcome: rmqdedup.InFlight, Left: r.until - now, Record: r.public(s.start)}
	}
	s.drop(r)
	return rmqdedup.Answer{Outcome: rmqdedup.Applied}
}

// claimedBy says whether r, which may be nil, is a claim of that owner.
func (r *record) claimedBy(o rmqdedup.Owner) bool { return r != nil && !r.done && r.owner == o }
