package mysql

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Expired implements [rmqdedup.Sweeper]. It reads the index on status and expiry, so its cost is that of what it finds, and of
// the expired claims that are within their grace.
func (s *Store) Expired(ctx context.Context, limit int, orphans bool) ([]rmqdedup.Record, error) {
	rows, err := s.expired(ctx, limit, orphans)
	if err != nil {
		return nil, fmt.Errorf("storage/mysql: listing expired claims: %w", s.explain(ctx, err))
	}
	records := make([]rmqdedup.Record, len(rows))
	for i, r := range rows {
		records[i] = *r.record()
	}
	return records, nil
}

func (s *Store) expired(parent context.Context, limit int, orphans bool) ([]*row, error) {
	ctx, end, err := s.begin(parent)
	if err != nil {
		return nil, err
	}
	defer end()
	withinGrace := 0
	if orphans {
		withinGrace = 1
	}
	return s.query(ctx, expiredSQL, 1, withinGrace, max(limit, 0))
}

// Clear implements [rmqdedup.Sweeper].
func (s *Store) Clear(ctx context.Context, records []rmqdedup.Record) (cleared int, err error) {
	cleared, err = s.clear(ctx, records)
	if err != nil {
		return cleared, fmt.Errorf("storage/mysql: clearing expired claims: %w", s.explain(ctx, err))
	}
	return cleared, nil
}

func (s *Store) clear(parent context.Context, records []rmqdedup.Record) (cleared int, err error) {
	ctx, end, err := s.begin(parent)
	if err != nil {
		return 0, err
	}
	defer end()
	reqs := make([]rmqdedup.Request, len(records))
	items := make([]*item, len(records))
	deadlines := make(map[*item]int64, len(records))
	for i := range records {
		reqs[i] = rmqdedup.Request{Key: records[i].Key, Owner: records[i].Owner}
		items[i] = &item{req: &reqs[i], digest: records[i].Key.Digest()}
		deadlines[items[i]] = records[i].Until.UnixMilli()
	}
	sql, err := s.renderer(ctx)
	if err != nil {
		return 0, err
	}
	for _, chunk := range chunks(items, sql.room) {
		args := appendOfKey(keys(chunk), chunk, owner)
		args = appendOfKey(args, chunk, func(it *item) any { return deadlines[it] })
		n, err := s.affected(ctx, clearSQL, len(chunk), args)
		if err != nil {
			return cleared, err
		}
		cleared += n
	}
	return cleared, nil
}

// keyBytes is more than a key alone takes in a statement.
const keyBytes = 100

// Purge implements [rmqdedup.Sweeper]. A read of the index on status and expiry, and one statement that removes by primary key
// what is still past its retention.
func (s *Store) Purge(ctx context.Context, limit int) (purged int, err error) {
	purged, err = s.purge(ctx, limit)
	if err != nil {
		return purged, fmt.Errorf("storage/mysql: purging DONE: %w", s.explain(ctx, err))
	}
	return purged, nil
}

func (s *Store) purge(parent context.Context, limit int) (purged int, err error) {
	ctx, end, err := s.begin(parent)
	if err != nil {
		return 0, err
	}
	defer end()
	found, err := s.digests(ctx, pastRetentionSQL, 1, max(limit, 0))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	slices.SortFunc(found, func(a, b digest) int { return bytes.Compare(a[:], b[:]) })
	sql, err := s.renderer(ctx)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(found, max(1, sql.room/keyBytes)) {
		args := make([]any, len(chunk))
		for i := range chunk {
			args[i] = chunk[i][:]
		}
		n, err := s.affected(ctx, purgeSQL, len(chunk), args)
		if err != nil {
			return purged, err
		}
		purged += n
	}
	return purged, nil
}
