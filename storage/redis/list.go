package redis

import (
	"context"
	"fmt"
	"iter"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// page is how many keys a server looks at for one SCAN: about a millisecond of its time.
const page = 1000

// List implements [rmqdedup.Lister], over every master of a Cluster. Only the group's names come over the network, but to find them each server
// walks through all the keys that it has, a thousand at a time: on a server with a hundred million keys that takes
// minutes, during which it goes on serving. A record may be seen twice while the server's table of keys grows or shrinks.
// Config.Timeout is for each page.
func (s *Store) List(ctx context.Context, group string) iter.Seq2[rmqdedup.Record, error] {
	return func(yield func(rmqdedup.Record, error) bool) {
		if err := s.list(ctx, group, yield); err != nil {
			yield(rmqdedup.Record{}, fmt.Errorf("storage/redis: list %s: %w", s.pattern(group), err))
		}
	}
}

// list stops without an error when yield says so.
func (s *Store) list(ctx context.Context, group string, yield func(rmqdedup.Record, error) bool) error {
	nodes, err := s.masters(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			var names []string
			if names, cursor, err = s.scan(ctx, node, cursor, group); err != nil {
				return err
			}
			records, err := s.records(ctx, group, names)
			if err != nil {
				return err
			}
			for _, r := range records {
				if !yield(r, nil) {
					return nil
				}
			}
		}
	}
	return nil
}

// scan reads one page of names.
func (s *Store) scan(ctx context.Context, node goredis.UniversalClient, cursor uint64, group string) ([]string, uint64, error) {
	type result struct {
		names []string
		next  uint64
	}
	r, err := ask(ctx, s, func(ctx context.Context) (r result, err error) {
		r.names, r.next, err = node.Scan(ctx, cursor, s.pattern(group), page).Result()
		return r, err
	})
	return r.names, r.next, err
}

// records reads the records of those names, without those that are gone.
func (s *Store) records(ctx context.Context, group string, names []string) ([]rmqdedup.Record, error) {
	reqs := make([]rmqdedup.Request, len(names))
	for i, name := range names {
		digest, err := digestOf(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		reqs[i].Key = rmqdedup.RestoreKey(rmqdedup.Key{Group: group}, digest)
	}
	answers, err := s.Lookup(ctx, reqs)
	if err != nil {
		return nil, err
	}
	records := make([]rmqdedup.Record, 0, len(answers))
	for _, a := range answers {
		if a.Err != nil {
			return nil, a.Err
		}
		if a.Record != nil {
			records = append(records, *a.Record)
		}
	}
	return records, nil
}

// masters returns the clients of all nodes that have keys.
func (s *Store) masters(ctx context.Context) ([]goredis.UniversalClient, error) {
	if s.cluster == nil {
		return []goredis.UniversalClient{s.client}, nil
	}
	return ask(ctx, s, func(ctx context.Context) ([]goredis.UniversalClient, error) {
		var mu sync.Mutex
		var nodes []goredis.UniversalClient
		err := s.cluster.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node)
			return nil
		})
		return nodes, err
	})
}

// ask calls f within the store's time limit, and explains its error.
func ask[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (T, error) {
	var none, answer T
	if s.closed.Load() {
		return none, rmqdedup.ErrClosed
	}
	c, end := s.begin(ctx)
	defer end()
	err := c.each(1, func(int) (err error) {
		answer, err = f(c.ctx)
		return err
	})[0]
	if err != nil { // f may still be running, and write to answer
		return none, c.explain(err)
	}
	return answer, nil
}
