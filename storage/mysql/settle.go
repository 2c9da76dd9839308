package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/internal/millis"
)

var (
	renew = operation{
		name:  "renew",
		valid: func(r *rmqdedup.Request) error { return r.ValidateLease(Resolution) },
		run: func(c *call, items []*item) error {
			for _, group := range alike(items, termsOf) {
				if err := c.renew(group); err != nil {
					return err
				}
			}
			return nil
		},
	}
	complete = operation{
		name:  "complete",
		valid: func(r *rmqdedup.Request) error { return r.ValidateRetention(Resolution) },
		run: func(c *call, items []*item) error {
			for _, group := range alike(items, func(r *rmqdedup.Request) time.Duration { return r.Retention }) {
				if err := c.complete(group); err != nil {
					return err
				}
			}
			return nil
		},
	}
	release = operation{name: "release", run: (*call).release}
	abandon = operation{name: "abandon", run: (*call).abandon}
)

// Renew implements [rmqdedup.Store].
func (s *Store) Renew(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpRenew, reqs)
}

// Complete implements [rmqdedup.Store]. One statement for claims that are still their owners'.
func (s *Store) Complete(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpComplete, reqs)
}

// Release implements [rmqdedup.Store].
func (s *Store) Release(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpRelease, reqs)
}

// Abandon implements [rmqdedup.Store].
func (s *Store) Abandon(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpAbandon, reqs)
}

// terms are those of a claim.
type terms struct{ lease, grace time.Duration }

func termsOf(r *rmqdedup.Request) terms { return terms{r.Lease, r.Grace} }

func settleAll(items []*item, outcome rmqdedup.Outcome) {
	for _, it := range items {
		it.settle(outcome, nil)
	}
}

func (c *call) renew(items []*item) error {
	items = open(items)
	if len(items) == 0 {
		return nil
	}
	r := items[0].req
	args := append([]any{millis.Of(r.Lease), millis.Of(r.Grace)}, keys(items)...)
	n, err := c.affected(c.context(), renewSQL, len(items), appendOfKey(args, items, owner))
	if err != nil {
		return err
	}
	if n == len(items) {
		settleAll(items, rmqdedup.Applied)
		return nil
	}
	// Either some are lost, or renewed twice within a millisecond.
	return c.settleByRow(items, func(it *item, r *row) bool { return r.claimOf(it.req.Owner) })
}

// settleByRow answers Applied for those items whose rows are as they should be now, and Lost for the others.
func (c *call) settleByRow(items []*item, applied func(*item, *row) bool) error {
	found, err := c.find(items)
	if err != nil {
		return err
	}
	for _, it := range items {
		if r := found[it.digest]; r != nil && applied(it, r) {
			it.settle(rmqdedup.Applied, nil)
		} else {
			it.settle(rmqdedup.Lost, nil)
		}
	}
	return nil
}

func (c *call) complete(items []*item) error {
	items = open(items)
	if len(items) == 0 {
		return nil
	}
	args := []any{millis.Of(items[0].req.Retention)}
	var stamp rmqdedup.Owner
	if len(items) > 1 {
		stamp = rmqdedup.NewOwner() // as good a random number as any
		args = append(args, stamp[:])
	}
	args = append(args, keys(items)...)
	n, err := c.affected(c.context(), completeSQL, len(items), appendOfKey(args, items, owner))
	if err != nil {
		return err
	}
	if n == len(items) {
		settleAll(items, rmqdedup.Applied)
		return nil
	}
	if n > 0 {
		if items, err = c.completed(items, stamp); err != nil {
			return err
		}
	}
	for _, it := range items {
		if err := c.completeLost(it); err != nil {
			return err
		}
	}
	return nil
}

// completed answers for those items that the statement with that stamp has made DONE, and for those that the same owner had made DONE before. It
// returns the others.
func (c *call) completed(items []*item, stamp rmqdedup.Owner) (others []*item, err error) {
	found, err := c.find(items)
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		switch r := found[it.digest]; {
		case r == nil || r.status != done || !r.live() || r.owner != it.req.Owner:
			others = append(others, it)
		case r.origin == stamp:
			it.settle(rmqdedup.Applied, nil)
		default:
			it.settle(rmqdedup.Done, nil)
		}
	}
	return others, nil
}

// completeLost makes one key DONE that is not, or no longer, its owner's claim.
func (c *call) completeLost(it *item) error {
	args := appendMessage([]any{it.digest[:], it.req.Owner[:], millis.Of(it.req.Retention)}, it.req)
	code, err := c.insertID(c.context(), completeLostSQL, args)
	if err != nil {
		return err
	}
	outcomes := [...]rmqdedup.Outcome{rmqdedup.Lost, rmqdedup.Applied, rmqdedup.Done, rmqdedup.Lost}
	if code < 0 || code >= int64(len(outcomes)) {
		return unexpectedCode(code)
	}
	it.settle(outcomes[code], nil)
	return nil
}

func unexpectedCode(code int64) error {
	return fmt.Errorf("the server answered with insert id %d: is there a trigger on the table, or a proxy before it?", code)
}

func (c *call) release(items []*item) error {
	items = open(items)
	if len(items) > 1 {
		// What is gone afterwards may have been gone before.
		found, err := c.find(items)
		if err != nil {
			return err
		}
		var own []*item
		for _, it := range items {
			if r := found[it.digest]; r != nil && r.claimOf(it.req.Owner) {
				own = append(own, it)
			} else {
				it.settle(rmqdedup.Lost, nil)
			}
		}
		items = own
	}
	if len(items) == 0 {
		return nil
	}
	n, err := c.affected(c.context(), releaseSQL, len(items), appendOfKey(keys(items), items, owner))
	if err != nil {
		return err
	}
	switch n {
	case len(items):
		settleAll(items, rmqdedup.Applied)
	case 0:
		settleAll(items, rmqdedup.Lost)
	default: // some were taken over just now
		found, err := c.find(items)
		if err != nil {
			return err
		}
		for _, it := range items {
			if found[it.digest] == nil {
				it.settle(rmqdedup.Applied, nil)
			} else {
				it.settle(rmqdedup.Lost, nil)
			}
		}
	}
	return nil
}

func (c *call) abandon(items []*item) error {
	items = open(items)
	if len(items) == 0 {
		return nil
	}
	fresh := make(map[digest]rmqdedup.Owner, len(items))
	args := appendOfKey(nil, items, func(it *item) any {
		nobody := rmqdedup.NewOwner()
		fresh[it.digest] = nobody
		return nobody[:]
	})
	args = append(args, keys(items)...)
	n, err := c.affected(c.context(), abandonSQL, len(items), appendOfKey(args, items, owner))
	if err != nil {
		return err
	}
	switch n {
	case len(items):
		settleAll(items, rmqdedup.Applied)
		return nil
	case 0:
		settleAll(items, rmqdedup.Lost)
		return nil
	}
	return c.settleByRow(items, func(it *item, r *row) bool {
		return r.owner == fresh[it.digest] || r.origin == fresh[it.digest]
	})
}
