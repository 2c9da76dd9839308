package storagetest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// checkEndedContext sends operations with a context that has ended. They fail, and the table is as if they had acted or
// as if they had not.
func checkEndedContext(f *fixture) {
	canceled, cancel := context.WithCancel(f.ctx)
	cancel()
	expired, cancel := context.WithTimeout(f.ctx, -time.Second)
	defer cancel()
	for _, ctx := range []context.Context{canceled, expired} {
		for _, op := range operations {
			q := request(f.newKey(), rmqdedup.NewOwner())
			if op != rmqdedup.OpAcquire {
				f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
			}
			answers, err := rmqdedup.Do(ctx, f.store, op, []rmqdedup.Request{q, stranger(q)})
			if !errors.Is(err, ctx.Err()) || len(answers) != 0 {
				f.Errorf("%v with a context that has ended: %d answers, error %v; want no answer, and an error that wraps %v", op, len(answers), err, ctx.Err())
			}
			found := f.one(rmqdedup.OpLookup, q)
			switch op {
			case rmqdedup.OpAcquire, rmqdedup.OpRelease:
				f.oneOf(op.String()+" with a context that has ended, then lookup", found, rmqdedup.Absent, rmqdedup.InFlight)
			case rmqdedup.OpComplete:
				f.oneOf("complete with a context that has ended, then lookup", found, rmqdedup.InFlight, rmqdedup.Done)
			case rmqdedup.OpAbandon:
				f.oneOf("abandon with a context that has ended, then lookup", found, rmqdedup.InFlight, rmqdedup.Orphan)
			default:
				f.oneOf(op.String()+" with a context that has ended, then lookup", found, rmqdedup.InFlight)
			}
		}
	}
}

// checkEndingContexts lets contexts end while operations are under way. What failed may have acted or not, and its
// owner makes sure by sending it again; what did not fail has acted.
func checkEndingContexts(f *fixture) {
	const workers, rounds, batch = 20, 10, 4
	steps := []struct {
		op    rmqdedup.Op
		again []rmqdedup.Outcome // what may be answered to one who does not know whether it acted
	}{
		{rmqdedup.OpAcquire, []rmqdedup.Outcome{rmqdedup.Claimed}},
		{rmqdedup.OpComplete, []rmqdedup.Outcome{rmqdedup.Applied, rmqdedup.Done}},
	}
	stores := f.handles(2)
	var all []rmqdedup.Request
	var wg sync.WaitGroup
	for w := range workers {
		random := rand.New(rand.NewPCG(uint64(w), 1))
		mine := f.new(rounds * batch)
		all = append(all, mine...)
		wg.Go(func() {
			s := stores[w%len(stores)]
			for reqs := range slices.Chunk(mine, batch) {
				for _, step := range steps {
					ctx, cancel := context.WithTimeout(f.ctx, time.Duration(random.IntN(1500))*time.Microsecond)
					_, err := rmqdedup.Do(ctx, s, step.op, reqs)
					cancel()
					if err == nil {
						continue
					}
					if !errors.Is(err, context.DeadlineExceeded) {
						f.Errorf("%v whose context ends meanwhile: error %v; want one that wraps %v", step.op, err, context.DeadlineExceeded)
					}
					answers, err := rmqdedup.Do(f.ctx, s, step.op, reqs)
					if err != nil || slices.ContainsFunc(answers, func(a rmqdedup.Answer) bool { return !slices.Contains(step.again, a.Outcome) }) {
						f.Errorf("%v whose context ended, sent again: %v, error %v; want each to be one of %v", step.op, answers, err, step.again)
					}
				}
			}
		})
	}
	wg.Wait()
	f.want(rmqdedup.Done, rmqdedup.OpLookup, all...)
}

// checkAliases changes what it gave to the store and got from it, which are its own.
func checkAliases(f *fixture) {
	q := request(f.newKey(), rmqdedup.NewOwner())
	reqs := []rmqdedup.Request{q}
	if _, err := f.store.Acquire(f.ctx, reqs); err != nil {
		f.Fatal(err)
	}
	reqs[0] = stranger(q)
	for range 2 {
		for _, op := range []rmqdedup.Op{rmqdedup.OpLookup, rmqdedup.OpAcquire} {
			answers := f.do(op, stranger(q))
			kept := slices.Clone(answers)
			f.do(op, stranger(q), stranger(q))
			if !slices.Equal(kept, answers) {
				f.Errorf("%v: its answers were changed by the next call", op)
			}
			r := answers[0].Record
			if r == nil || r.Owner != q.Owner || r.MessageID != q.MessageID || r.Done {
				f.Fatalf("%v: %s; want the record of %v, unaltered by what a caller did to its own", op, describe(answers[0]), q.Owner)
			}
			*r = rmqdedup.Record{Done: true, Owner: rmqdedup.NewOwner()}
		}
	}
	f.want(rmqdedup.Applied, rmqdedup.OpComplete, q)
}

// checkClose closes a store, at first with operations under way.
func checkClose(f *fixture) {
	store := f.table.Store(f)
	closer, ok := rmqdedup.Find[io.Closer](store)
	if !ok {
		f.Skip("the store has no Close() error")
	}
	q := request(f.newKey(), rmqdedup.NewOwner())
	g := f.on(store)
	g.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)

	var started, finished sync.WaitGroup
	var closed atomic.Bool
	for range 8 {
		mine := request(f.newKey(), rmqdedup.NewOwner())
		started.Add(1)
		finished.Go(func() {
			_, err := store.Acquire(f.ctx, []rmqdedup.Request{mine})
			started.Done()
			for err == nil && !closed.Load() {
				_, err = store.Acquire(f.ctx, []rmqdedup.Request{mine})
			}
			if err != nil && !errors.Is(err, rmqdedup.ErrClosed) {
				f.Errorf("acquire while the store is closed: %v; want it to act, or to fail with ErrClosed", err)
			}
		})
	}
	started.Wait()
	if err := closer.Close(); err != nil {
		f.Errorf("close: %v", err)
	}
	closed.Store(true)
	finished.Wait()

	for _, op := range operations {
		if answers, err := rmqdedup.Do(f.ctx, store, op, []rmqdedup.Request{q}); !errors.Is(err, rmqdedup.ErrClosed) || len(answers) != 0 {
			f.Errorf("%v on a closed store: %d answers, error %v; want ErrClosed", op, len(answers), err)
		}
	}
	if s, ok := rmqdedup.Find[rmqdedup.Sweeper](store); ok {
		_, err := s.Expired(f.ctx, 1, true)
		_, err2 := s.Clear(f.ctx, []rmqdedup.Record{{Key: q.Key, Owner: q.Owner, Until: time.Now()}})
		_, err3 := s.Purge(f.ctx, 1)
		for _, err := range []error{err, err2, err3} {
			if !errors.Is(err, rmqdedup.ErrClosed) {
				f.Errorf("sweeping a closed store: %v; want ErrClosed", err)
			}
		}
	}
	if s, ok := rmqdedup.Find[rmqdedup.Lister](store); ok {
		if _, err := list(f.ctx, s, group); !errors.Is(err, rmqdedup.ErrClosed) {
			f.Errorf("listing a closed store: %v; want ErrClosed", err)
		}
	}
}
