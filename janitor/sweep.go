package janitor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// maxLeft is how many claims a sweep may find and leave before it turns to what is DONE: more come from no race with their owners.
const maxLeft = 1000

// A sweep goes through the table once: expired claims first, since there are few and somebody may wait for one, then DONE.
type sweep struct {
	store   rmqdedup.Store
	sweeper rmqdedup.Sweeper
	cfg     *settings
	pace    *pace
	until   time.Time // no statement begins after that

	listened bool // the quiet table has been measured; from then on batches have a probe beside them
	report   *Report
}

// run sweeps until there is nothing more to find, or something ends it. A panic of the store is an error.
func (s *sweep) run(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("janitor: the store panicked: %w", &rmqdedup.PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	s.pace.begin()
	err = s.clearClaims(ctx)
	if err == nil {
		err = s.purge(ctx)
	}
	if errors.Is(err, errOverTime) {
		s.report.Unfinished = true
		return nil
	}
	return err
}

// clearClaims clears claims that expired longer ago than their grace, until no more are found.
//
// What was found and not cleared was renewed, taken over or finished meanwhile, and is no longer found, unless a store goes on
// listing it. Those are asked for on top of the batch, since they come first, and passed over.
func (s *sweep) clearClaims(ctx context.Context) error {
	tried := map[claim]bool{}
	for s.report.Left < maxLeft {
		found, err := s.expired(ctx, tried)
		if err != nil || len(found) == 0 {
			return err
		}
		s.listen(ctx)
		cleared, err := s.clear(ctx, s.dead(found))
		if err != nil {
			return err
		}
		if left := len(found) - cleared; left > 0 {
			s.report.Left += left
			for i := range found {
				tried[claimOf(&found[i])] = true
			}
		}
	}
	return nil
}

// A claim tells one claim of a key from others of the same key, earlier or later.
type claim struct {
	key   [sha256.Size]byte
	owner rmqdedup.Owner
	until int64
}

func claimOf(r *rmqdedup.Record) claim {
	return claim{key: r.Key.Digest(), owner: r.Owner, until: r.Until.UnixNano()}
}

// expired returns a batch of claims that expired longer ago than their grace, without those that were tried.
func (s *sweep) expired(ctx context.Context, tried map[claim]bool) (found []rmqdedup.Record, err error) {
	err = s.statement(ctx, "listing expired claims", func(ctx context.Context) (err error) {
		found, err = s.sweeper.Expired(ctx, s.pace.batch+s.report.Left, false)
		return err
	})
	return slices.DeleteFunc(found, func(r rmqdedup.Record) bool { return tried[claimOf(&r)] }), err
}

// dead returns which of the expired claims are to be cleared: all of them, as there is nobody to ask whether their work was done
// after all.
func (s *sweep) dead(found []rmqdedup.Record) []rmqdedup.Record { return found }

// clear clears claims in batches, and returns how many there still were as they were read.
func (s *sweep) clear(ctx context.Context, records []rmqdedup.Record) (cleared int, err error) {
	for len(records) > 0 {
		var size int
		err = s.batch(ctx, "clearing expired claims", func(ctx context.Context) (bool, error) {
			size = min(s.size(), len(records))
			n, err := s.sweeper.Clear(ctx, records[:size])
			cleared += n // a store may have come part of the way before it failed
			s.report.Cleared += n
			return true, err
		})
		if err != nil {
			return cleared, err
		}
		records = records[size:]
	}
	return cleared, nil
}

// purge purges DONE past its retention, until none is found.
func (s *sweep) purge(ctx context.Context) error {
	for {
		var n int
		err := s.batch(ctx, "purging DONE", func(ctx context.Context) (_ bool, err error) {
			n, err = s.sweeper.Purge(ctx, s.size())
			s.report.Purged += n
			return n > 0, err
		})
		if err != nil || n == 0 {
			return err
		}
		s.listen(ctx)
	}
}

// size is how many rows the next batch may have.
func (s *sweep) size() int {
	if s.report.SmallestBatch == 0 || s.pace.batch < s.report.SmallestBatch {
		s.report.SmallestBatch = s.pace.batch
	}
	return s.pace.batch
}

// batch makes one statement that deletes, with a probe beside it, and the pause behind it if it did something.
func (s *sweep) batch(ctx context.Context, what string, f func(context.Context) (did bool, err error)) error {
	if s.listened && s.report.Batches%quietEvery == quietEvery-1 && !s.overTime() {
		s.hearQuiet(ctx)
	}
	if s.overTime() {
		return errOverTime
	}
	did := false
	if err := s.besideProbe(ctx, what, func(ctx context.Context) (err error) {
		did, err = f(ctx)
		return err
	}); err != nil || !did {
		return err
	}
	s.report.Batches++
	return sleep(ctx, s.pace.pause)
}

func (s *sweep) besideProbe(ctx context.Context, what string, f func(context.Context) error) error {
	wait := s.beside(ctx)
	defer wait() // also when the store panics: nothing runs on after a sweep
	return s.statement(ctx, what, f)
}
