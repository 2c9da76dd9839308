//go:build unix

package storagetest

import (
	"context"
	"errors"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

func (s *flawedStore) Expired(ctx context.Context, limit int, orphans bool) ([]rmqdedup.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	now := s.now()
	var records []rmqdedup.Record
	for _, r := range s.rows {
		until := r.Until
		if !orphans && s.flaw != sweepsOrphans {
			until = until.Add(r.Grace)
		}
		if s.flaw == sweepsEarly {
			until = until.Add(-newLease)
		}
		if !r.Done && !until.After(now) {
			records = append(records, r.Record)
		}
	}
	if s.flaw != sweepsUnordered {
		slices.SortFunc(records, func(a, b rmqdedup.Record) int { return a.Until.Compare(b.Until) })
	} else {
		slices.SortFunc(records, func(a, b rmqdedup.Record) int { return strings.Compare(a.MessageID, b.MessageID) })
	}
	if s.flaw == sweepsUnbounded {
		return records, nil
	}
	return records[:min(limit, len(records))], nil
}

func (s *flawedStore) Clear(ctx context.Context, records []rmqdedup.Record) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	for _, read := range records {
		r := s.rows[s.id(read.Key)]
		switch {
		case r == nil || r.Done:
			if s.flaw == countsAll {
				n++
			}
			continue
		case r.Owner != read.Owner && s.flaw != clearsAnyones:
			continue
		case !r.Until.Equal(read.Until) && s.flaw != clearsRenewed && s.flaw != clearsAnyones:
			continue
		case r.Until.After(s.now()) && s.flaw != clearsLive && s.flaw != clearsAnyones:
			continue
		}
		s.gap(clearsInGap)
		delete(s.rows, s.id(read.Key))
		n++
	}
	return n, nil
}

func (s *flawedStore) Purge(ctx context.Context, limit int) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	now := s.now()
	if s.flaw == purgesEarly {
		now = now.Add(2 * slack)
	}
	for id, r := range s.rows {
		if (r.Done || s.flaw == purgesClaims) && !r.Until.After(now) && (n < limit || s.flaw == sweepsUnbounded) {
			delete(s.rows, id)
			n++
		}
	}
	return n, nil
}

func (s *flawedStore) List(ctx context.Context, group string) iter.Seq2[rmqdedup.Record, error] {
	return func(yield func(rmqdedup.Record, error) bool) {
		s.mu.Lock()
		err := s.usable(ctx)
		var records []rmqdedup.Record
		for _, r := range s.rows {
			if s.inGroup(r.Key.Group, group) {
				records = append(records, r.Record)
			}
		}
		s.mu.Unlock()
		if s.flaw == listsSome {
			records = records[:min(len(records), 1000)]
		}
		for _, r := range records {
			if err == nil && s.flaw != ignoresContexts {
				err = ctx.Err()
			}
			if err != nil {
				break
			}
			if !yield(r, nil) {
				return
			}
		}
		if err != nil && (s.flaw != cutsListing || errors.Is(err, rmqdedup.ErrClosed)) {
			yield(rmqdedup.Record{}, err)
		}
	}
}

func (s *flawedStore) inGroup(have, want string) bool {
	switch s.flaw {
	case listsPrefixes:
		return strings.HasPrefix(have, want)
	case listsPatterns:
		ok, err := path.Match(want, have)
		return ok && err == nil
	case listsAnyCase:
		return strings.EqualFold(have, want)
	}
	return have == want
}
