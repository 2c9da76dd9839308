package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Expired implements [rmqdedup.Sweeper]. It looks at every claim, though not at what is DONE. Claims past their grace
// are also dropped by other operations, so that few are found here.
func (s *Store) Expired(ctx context.Context, limit int, orphans bool) ([]rmqdedup.Record, error) {
	now, err := s.lock(ctx, "listing expired claims")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var expired []*record
	for _, r := range s.claims {
		if now >= r.gone || orphans && now >= r.until {
			expired = append(expired, r)
		}
	}
	slices.SortFunc(expired, func(a, b *record) int { return cmp.Compare(a.until, b.until) })
	expired = expired[:min(max(limit, 0), len(expired))]
	records := make([]rmqdedup.Record, len(expired))
	for i, r := range expired {
		records[i] = *r.public(s.start)
	}
	return records, nil
}

// Clear implements [rmqdedup.Sweeper].
func (s *Store) Clear(ctx context.Context, records []rmqdedup.Record) (cleared int, err error) {
	now, err := s.lock(ctx, "clearing expired claims")
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	for i := range records {
		r := s.records[records[i].Key.Digest()]
		if r.claimedBy(records[i].Owner) && now >= r.until && s.start.Add(r.until).Equal(records[i].Until) {
			s.drop(r)
			cleared++
		}
	}
	return cleared, nil
}

// Purge implements [rmqdedup.Sweeper].
func (s *Store) Purge(ctx context.Context, limit int) (purged int, err error) {
	now, err := s.lock(ctx, "purging DONE")
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	for purged < limit {
		r := s.done.first()
		if r == nil || now < r.gone {
			break
		}
		s.drop(r)
		purged++
	}
	return purged, nil
}

// List implements [rmqdedup.Lister]. It copies the group's records while it holds the store's mutex, and yields them
// afterwards, so that the loop's body may use the store.
func (s *Store) List(ctx context.Context, group string) iter.Seq2[rmqdedup.Record, error] {
	return func(yield func(rmqdedup.Record, error) bool) {
		records, err := s.group(ctx, group)
		for _, r := range records {
			if err = ctx.Err(); err != nil {
				err = fmt.Errorf("memory: listing a group: %w", err)
				break
			}
			if !yield(*r, nil) {
				return
			}
		}
		if err != nil {
			yield(rmqdedup.Record{}, err)
		}
	}
}

func (s *Store) group(ctx context.Context, group string) ([]*rmqdedup.Record, error) {
	now, err := s.lock(ctx, "listing a group")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var records []*rmqdedup.Record
	for _, r := range s.records {
		if r.key.Group == group && now < r.gone {
			records = append(records, r.public(s.start))
		}
	}
	return records, nil
}
