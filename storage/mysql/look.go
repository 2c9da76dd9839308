package mysql

import (
	"context"
	"fmt"
	"iter"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// page is how many rows List looks at for one statement.
const page = 1000

var (
	lookup = operation{name: "lookup", run: (*call).lookup}
	forget = operation{name: "forget", run: (*call).forget}
)

// Lookup implements [rmqdedup.Store]. An expired claim is an orphan for as long as its row is there.
func (s *Store) Lookup(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpLookup, reqs)
}

// Forget implements [rmqdedup.Store].
func (s *Store) Forget(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpForget, reqs)
}

func (c *call) lookup(items []*item) error {
	found, err := c.find(items)
	if err != nil {
		return err
	}
	for _, it := range items {
		r := found[it.digest]
		switch {
		case r == nil || r.status == done && !r.live():
			it.settle(rmqdedup.Absent, nil)
		case r.status == done:
			it.settle(rmqdedup.Done, r)
		case r.live():
			it.settle(rmqdedup.InFlight, r)
		default:
			it.settle(rmqdedup.Orphan, r)
		}
	}
	return nil
}

// forget removes what it has read, and reads again what has changed meanwhile.
func (c *call) forget(items []*item) error {
	items = open(items)
	for range maxRounds {
		found, err := c.find(items)
		if err != nil {
			return err
		}
		var going []*item
		for _, it := range items {
			switch r := found[it.digest]; {
			case r == nil:
				it.settle(rmqdedup.Absent, nil)
			case r.inFlight():
				it.settle(rmqdedup.InFlight, r)
			default:
				going = append(going, it)
			}
		}
		if len(going) == 0 {
			return nil
		}
		args := appendOfKey(keys(going), going, func(it *item) any { return found[it.digest].owner[:] })
		args = appendOfKey(args, going, func(it *item) any { return found[it.digest].expiresAt })
		n, err := c.affected(c.context(), forgetSQL, len(going), args)
		if err != nil {
			return err
		}
		if n == len(going) {
			for _, it := range going {
				if r := found[it.digest]; r.status == done && !r.live() {
					it.settle(rmqdedup.Absent, nil) // it counted no more
				} else {
					it.settle(rmqdedup.Applied, nil)
				}
			}
			return nil
		}
		items = going
	}
	return errRestless
}

// List implements [rmqdedup.Lister]. It walks through the whole table in the order of its primary key, a thousand rows at a time, and has the
// server pick those of the group, so it costs what the table is long, not what the group is. The time limit is for each
// thousand.
func (s *Store) List(ctx context.Context, group string) iter.Seq2[rmqdedup.Record, error] {
	return func(yield func(rmqdedup.Record, error) bool) {
		var from digest
		for last := false; !last; {
			rows, to, err := s.page(ctx, group, from)
			if err != nil {
				yield(rmqdedup.Record{}, fmt.Errorf("storage/mysql: list %q: %w", group, s.explain(ctx, err)))
				return
			}
			for _, r := range rows {
				if r.status == done && !r.live() {
					continue
				}
				if !yield(*r.record(), nil) {
					return
				}
			}
			if last = to == nil; !last {
				from = *to
			}
		}
	}
}

// page reads a group's rows among the thousand that follow a key, and returns where the next page begins, or nil after the last.
func (s *Store) page(parent context.Context, group string, from digest) (rows []*row, to *digest, err error) {
	ctx, end, err := s.begin(parent)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	ends, err := s.digests(ctx, pageEndSQL, 1, from[:], page-1)
	if err != nil {
		return nil, nil, err
	}
	until := digest{}
	for i := range until {
		until[i] = 0xff
	}
	if len(ends) > 0 {
		until, to = ends[0], &ends[0]
	}
	rows, err = s.query(ctx, listSQL, 1, from[:], until[:], text(group))
	return rows, to, err
}
