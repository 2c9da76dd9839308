//go:build unix

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A flawedTable is a small table with stores on it, right in every respect but one. Without a flaw it passes the suite,
// by other choices than the memory store makes where the contract leaves one: it forgets nothing by itself, and an
// owner takes over its own orphan. Its clock is the system's, which a bubble does not change.
type flawedTable struct {
	flaw flaw

	mu   sync.Mutex
	rows map[string]*flawedRow
}

type flawedRow struct {
	rmqdedup.Record
	taken bool
}

func newFlawedTable(f flaw) func(t testing.TB) Table {
	return func(testing.TB) Table { return &flawedTable{flaw: f, rows: make(map[string]*flawedRow)} }
}

func (t *flawedTable) Store(tb testing.TB) rmqdedup.Store {
	s := &flawedStore{flawedTable: t}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func (t *flawedTable) Age(_ testing.TB, k rmqdedup.Key, by time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.rows[t.id(k)]; r != nil {
		r.Until = r.Until.Add(-by)
	}
}

// id is what the table takes for a key's identity.
func (t *flawedTable) id(k rmqdedup.Key) string {
	value := k.Value
	switch t.flaw {
	case foldsCase:
		value = strings.ToLower(value)
	case trimsBlanks:
		value = strings.TrimRight(value, " ")
	case cutsKeys:
		value = value[:min(len(value), 255)]
	case cutsAtNUL:
		value, _, _ = strings.Cut(value, "\x00")
	case repairsUTF8:
		value = strings.ToValidUTF8(value, "\ufffd")
	case joinsParts:
		return fmt.Sprint(k.Kind, k.Group, ":", k.Topic, ":", k.Tag, ":", k.Value)
	case ignoresGroup:
		return fmt.Sprint(k.Kind, k.Topic, "\x00", k.Tag, "\x00", k.Value)
	default:
		d := k.Digest()
		return string(d[:])
	}
	return fmt.Sprint(k.Kind, k.Group, "\x00", k.Topic, "\x00", k.Tag, "\x00", value)
}

func (t *flawedTable) now() time.Time {
	if t.flaw == trustsClients {
		return time.Now()
	}
	var tv syscall.Timeval
	if err := syscall.Gettimeofday(&tv); err != nil {
		panic(err)
	}
	return time.Unix(tv.Unix())
}

type flawedStore struct {
	*flawedTable
	closed bool
}

func (s *flawedStore) Acquire(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(ctx, rmqdedup.OpAcquire, reqs)
}

func (s *flawedStore) Renew(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(ctx, rmqdedup.OpRenew, reqs)
}

func (s *flawedStore) Complete(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(ctx, rmqdedup.OpComplete, reqs)
}

func (s *flawedStore) Release(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(ctx, rmqdedup.OpRelease, reqs)
}

func (s *flawedStore) Abandon(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(ctx, rmqdedup.OpAbandon, reqs)
}

func (s *flawedStore) Lookup(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(ctx, rmqdedup.OpLookup, reqs)
}

func (s *flawedStore) Forget(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(ctx, rmqdedup.OpForget, reqs)
}

func (s *flawedStore) Resolution() time.Duration { return time.Millisecond }

func (s *flawedStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *flawedStore) usable(ctx context.Context) error {
	if s.closed && s.flaw != outlivesClose {
		return rmqdedup.ErrClosed
	}
	if s.flaw == ignoresContexts {
		return nil
	}
	return ctx.Err()
}

func (s *flawedStore) call(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		if s.flaw == hidesCancel && !errors.Is(err, rmqdedup.ErrClosed) {
			return make([]rmqdedup.Answer, len(reqs)), nil
		}
		return nil, fmt.Errorf("flawed: %w", err)
	}
	if s.flaw == sortsRequests {
		slices.SortFunc(reqs, byDigest)
	}
	order := reqs
	if s.flaw == answersSorted {
		order = slices.Clone(reqs)
		slices.SortFunc(order, byDigest)
	}
	if s.flaw == refusesAll {
		for i := range reqs {
			if err := s.validate(op, &reqs[i]); err != nil {
				return nil, err
			}
		}
	}
	answers := make([]rmqdedup.Answer, len(reqs))
	first := make(map[string]int)
	for i := range order {
		id := s.id(order[i].Key)
		if at, ok := first[id]; ok && s.flaw == collapsesKeys {
			answers[i] = answers[at]
			continue
		}
		first[id] = i
		answers[i] = s.answer(op, &order[i])
	}
	return answers, nil
}

func byDigest(a, b rmqdedup.Request) int {
	x, y := a.Key.Digest(), b.Key.Digest()
	return slices.Compare(x[:], y[:])
}

func (s *flawedStore) validate(op rmqdedup.Op, q *rmqdedup.Request) error {
	switch {
	case s.flaw == acceptsAnything:
		return nil
	case op == rmqdedup.OpAcquire || op == rmqdedup.OpRenew:
		return q.ValidateLease(s.Resolution())
	case op == rmqdedup.OpComplete:
		return q.ValidateRetention(s.Resolution())
	}
	return nil
}

// gap gives others a turn between a read and a write.
func (s *flawedStore) gap(f flaw) {
	if s.flaw == f {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
}

// find returns the row of a key that is not absent.
func (s *flawedStore) find(k rmqdedup.Key) (r *flawedRow, live bool) {
	r = s.rows[s.id(k)]
	now := s.now()
	if r == nil || r.Done && !r.Until.After(now) {
		return nil, false
	}
	return r, !r.Done && r.Until.After(now)
}

func (s *flawedStore) answer(op rmqdedup.Op, q *rmqdedup.Request) rmqdedup.Answer {
	if err := s.validate(op, q); err != nil {
		return rmqdedup.Answer{Err: err}
	}
	r, live := s.find(q.Key)
	own := r != nil && !r.Done && r.Owner == q.Owner
	switch op {
	case rmqdedup.OpAcquire:
		return s.acquire(q, r, own, live)
	case rmqdedup.OpRenew:
		return s.renew(q, r, own, live)
	case rmqdedup.OpComplete:
		return s.complete(q, r, own)
	case rmqdedup.OpRelease:
		return s.release(q, r, own)
	case rmqdedup.OpAbandon:
		return s.abandon(q, r, own, live)
	case rmqdedup.OpLookup:
		return s.lookup(q, r, live)
	}
	switch {
	case r == nil:
		return rmqdedup.Answer{Outcome: rmqdedup.Absent}
	case live && s.flaw != forgetsLive:
		return rmqdedup.Answer{Outcome: rmqdedup.InFlight, Left: s.left(r)}
	}
	delete(s.rows, s.id(q.Key))
	return rmqdedup.Answer{Outcome: rmqdedup.Applied}
}

func (s *flawedStore) acquire(q *rmqdedup.Request, r *flawedRow, own, live bool) rmqdedup.Answer {
	claim := &flawedRow{Record: s.record(q)}
	claim.Until, claim.Grace = s.deadline(q.Lease), q.Grace
	a := rmqdedup.Answer{Outcome: rmqdedup.Claimed}
	switch {
	case r == nil:
		s.gap(claimsInGap)
	case r.Done:
		return rmqdedup.Answer{Outcome: rmqdedup.Done, Record: s.found(r)}
	case live && (!own || s.flaw == blocksOwner):
		return rmqdedup.Answer{Outcome: rmqdedup.InFlight, Left: s.left(r), Record: s.found(r)}
	case !live:
		s.gap(takesOverInGap)
		if claim.taken = s.flaw != hidesTakeovers; claim.taken {
			a = rmqdedup.Answer{Outcome: rmqdedup.TakenOver, Record: s.found(r)}
		}
		if s.flaw == hidesOrphan {
			a.Record = nil
		}
	case r.taken && s.flaw != forgetsMark:
		claim.taken = true
		a = rmqdedup.Answer{Outcome: rmqdedup.TakenOver, Record: s.found(r)}
	}
	if own && live && s.flaw == keepsDeadline {
		claim.Until = r.Until
	}
	if own && s.flaw == keepsGrace {
		claim.Grace = r.Grace
	}
	s.rows[s.id(q.Key)] = claim
	return a
}

func (s *flawedStore) renew(q *rmqdedup.Request, r *flawedRow, own, live bool) rmqdedup.Answer {
	if r == nil || r.Done || !own && s.flaw != renewsAnyones || !live && s.flaw == renewsLiveOnly {
		return rmqdedup.Answer{Outcome: rmqdedup.Lost}
	}
	s.gap(renewsInGap)
	renewed := *r
	if renewed.Until = s.deadline(q.Lease); s.flaw == addsLease {
		renewed.Until = r.Until.Add(q.Lease)
	}
	if s.flaw != keepsGrace {
		renewed.Grace = q.Grace
	}
	if s.flaw == renewLosesMark {
		renewed.taken = false
	}
	s.rows[s.id(q.Key)] = &renewed
	return rmqdedup.Answer{Outcome: rmqdedup.Applied}
}

func (s *flawedStore) complete(q *rmqdedup.Request, r *flawedRow, own bool) rmqdedup.Answer {
	done := &flawedRow{Record: s.record(q)}
	done.Done, done.DoneAt, done.Until = true, s.now(), s.deadline(q.Retention)
	a := rmqdedup.Answer{Outcome: rmqdedup.Lost}
	switch {
	case own:
		s.gap(completesInGap)
		a.Outcome = rmqdedup.Applied
	case r != nil && r.Done && s.flaw != completesAgain:
		return rmqdedup.Answer{Outcome: rmqdedup.Done}
	case s.flaw == completesOwnOnly:
		return a
	case r == nil && s.flaw == completesClaimsOnly:
		return a
	case s.flaw == hidesLateness:
		a.Outcome = rmqdedup.Applied
	}
	if r != nil && s.flaw == keepsClaimant {
		done.Owner = r.Owner
	}
	s.rows[s.id(q.Key)] = done
	return a
}

func (s *flawedStore) release(q *rmqdedup.Request, r *flawedRow, own bool) rmqdedup.Answer {
	if r == nil ||
		r.Done && (s.flaw != releasesDone || r.Owner != q.Owner) ||
		!r.Done && !own && s.flaw != releasesAnyones {
		return rmqdedup.Answer{Outcome: rmqdedup.Lost}
	}
	s.gap(releasesInGap)
	delete(s.rows, s.id(q.Key))
	return rmqdedup.Answer{Outcome: rmqdedup.Applied}
}

func (s *flawedStore) abandon(q *rmqdedup.Request, r *flawedRow, own, live bool) rmqdedup.Answer {
	if r == nil || r.Done || !own && s.flaw != abandonsAnyones || !live {
		return rmqdedup.Answer{Outcome: rmqdedup.Lost}
	}
	if s.flaw == abandonDeletes {
		delete(s.rows, s.id(q.Key))
		return rmqdedup.Answer{Outcome: rmqdedup.Applied}
	}
	r.Until = s.now()
	if s.flaw != abandonKeepsOwner {
		r.Owner = rmqdedup.NewOwner()
	}
	return rmqdedup.Answer{Outcome: rmqdedup.Applied}
}

func (s *flawedStore) lookup(q *rmqdedup.Request, r *flawedRow, live bool) rmqdedup.Answer {
	if r == nil {
		return rmqdedup.Answer{Outcome: rmqdedup.Absent}
	}
	a := rmqdedup.Answer{Outcome: rmqdedup.Orphan, Record: s.found(r)}
	grace := r.Grace
	if s.flaw == trustsReaders {
		grace = q.Grace
	}
	switch {
	case r.Done:
		a.Outcome = rmqdedup.Done
	case live:
		a.Outcome, a.Left = rmqdedup.InFlight, s.left(r)
	case s.now().After(r.Until.Add(grace)) && s.flaw != keepsOrphans:
		return rmqdedup.Answer{Outcome: rmqdedup.Absent}
	}
	return a
}

// record returns what is kept of a request.
func (s *flawedStore) record(q *rmqdedup.Request) rmqdedup.Record {
	r := rmqdedup.Record{Key: q.Key.Readable(), Owner: q.Owner, MessageID: q.MessageID, Attempt: q.Attempt, Fingerprint: q.Fingerprint}
	switch s.flaw {
	case cutsFingerprints:
		r.Fingerprint &= 1<<63 - 1
	case cutsAttempts:
		r.Attempt = int(int8(r.Attempt))
	case trimsIDs:
		r.MessageID = strings.TrimRight(r.MessageID, " ")
	case spoilsParts:
		if !utf8.ValidString(r.Key.Value) {
			parts := r.Key
			parts.Value = strings.ToValidUTF8(parts.Value, "\ufffd")
			r.Key = rmqdedup.RestoreKey(parts, r.Key.Digest())
		}
	}
	return r
}

// found returns a row's record for a caller.
func (s *flawedStore) found(r *flawedRow) *rmqdedup.Record {
	if s.flaw == sharesRecords {
		return &r.Record
	}
	public := r.Record
	return &public
}

func (s *flawedStore) left(r *flawedRow) time.Duration {
	left := r.Until.Sub(s.now())
	switch s.flaw {
	case countsGrace:
		left += r.Grace
	case hidesLeft:
		left = 0
	}
	return left
}

func (s *flawedStore) deadline(d time.Duration) time.Time {
	until := s.now().Add(d)
	switch s.flaw {
	case roundsToSeconds:
		until = until.Truncate(time.Second)
	case cutsTimes:
		if d > 1<<31*time.Second { // as many seconds as a signed 32-bit number counts
			until = s.now()
		}
	}
	return until
}
