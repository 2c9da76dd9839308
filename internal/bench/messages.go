package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A process claims messages and completes them, as the wrapper does.
type process struct {
	store      rmqdedup.Store
	space      string // begins the keys, so that two processes on one table do not meet
	keys       int    // messages a call
	duplicates bool   // every second message is one
	claims     atomic.Int64
}

// lateBy is how many messages stand between a late duplicate and its original; far more than are under way.
const lateBy = 512

// original is the number of the message that message i is a copy of, or i. Of four messages the second is a copy of the one before it,
// and the fourth of one that has long been done.
func (p *process) original(i int) int {
	switch {
	case !p.duplicates || i%2 == 0:
		return i
	case i%4 == 1:
		return i - 1
	}
	return max(i-1-lateBy, 0)
}

// request is the one of message i.
func (p *process) request(i int) rmqdedup.Request {
	return requestFor(p.space+strconv.Itoa(p.original(i)), i)
}

// requestFor is one as they mostly are: an order's number, and an ID of the client's making.
func requestFor(value string, i int) rmqdedup.Request {
	return rmqdedup.Request{
		Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", value),
		Owner: rmqdedup.NewOwner(), Lease: time.Minute, Retention: 96 * time.Hour,
		MessageID: "7F00000100002A9F" + strconv.Itoa(1_000_000_000_000_000+i), Fingerprint: uint64(i) * 0x9E3779B97F4A7C15, //nolint:gosec // any bits will do
	}
}

// messages claims and completes those from first on, each step in one call. Whatever is not as it should be is an error.
func (p *process) messages(ctx context.Context, first int) error {
	reqs := make([]rmqdedup.Request, p.keys)
	for i := range reqs {
		reqs[i] = p.request(first + i)
	}
	// The contexts of messages do not end, and what does not end costs less.
	ctx = context.WithoutCancel(ctx)
	mine, err := p.claim(ctx, reqs)
	if err != nil || len(mine) == 0 {
		return err
	}
	p.claims.Add(int64(len(mine)))
	answers, err := p.store.Complete(ctx, mine)
	if err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	for i, a := range answers {
		if a.Err != nil || a.Outcome != rmqdedup.Applied {
			return fmt.Errorf("complete of %s: %v %w", mine[i].Key.Value, a.Outcome, a.Err)
		}
	}
	return nil
}

// claim returns those that are to be run.
func (p *process) claim(ctx context.Context, reqs []rmqdedup.Request) (mine []rmqdedup.Request, err error) {
	answers, err := p.store.Acquire(ctx, reqs)
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	for i, a := range answers {
		switch {
		case a.Err != nil:
			return nil, fmt.Errorf("acquire of %s: %w", reqs[i].Key.Value, a.Err)
		case a.Outcome == rmqdedup.Claimed:
			mine = append(mine, reqs[i])
		case p.duplicates && (a.Outcome == rmqdedup.Done || a.Outcome == rmqdedup.InFlight):
		default:
			return nil, fmt.Errorf("acquire of %s, which is new: %v", reqs[i].Key.Value, a.Outcome)
		}
	}
	return mine, nil
}

// check says whether each of the first n messages that is no copy was run once.
func (p *process) check(n int) error {
	originals := n
	if p.duplicates {
		originals = (n + 1) / 2
	}
	if got := int(p.claims.Load()); got != originals {
		return fmt.Errorf("%d messages, of which %d are no copies, were run %d times in all", n, originals, got)
	}
	return nil
}

// load has callers do the process.
func (p *process) load(callers int) *load {
	return &load{callers: callers, keys: p.keys, task: p.messages}
}

// run is a round of l, which is p's, checked.
func (p *process) run(ctx context.Context, l *load, d time.Duration) (perSecond float64, err error) {
	if perSecond, err = l.run(ctx, d); err != nil {
		return 0, err
	}
	return perSecond, p.check(int(l.next.Load()))
}
