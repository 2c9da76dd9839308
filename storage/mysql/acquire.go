package mysql

import (
	"context"
	"errors"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/internal/millis"
)

// maxRounds is how often an acquire begins again because a row vanished or changed hands between two of its
// statements.
const maxRounds = 8

var errRestless = errors.New("the record changed hands again and again while it was claimed: try again")

var acquire = operation{
	name:  "acquire",
	valid: func(r *rmqdedup.Request) error { return r.ValidateLease(Resolution) },
	locked: func(it *item, found *row) {
		switch {
		case found == nil:
			// Somebody has inserted it and not committed.
			it.settle(rmqdedup.InFlight, &row{digest: it.digest, status: consuming})
		case found.status == done && found.live():
			it.settle(rmqdedup.Done, found)
			return
		case found.claimOf(it.req.Owner):
			return // its own claim; whether it still is one the transaction decides
		default:
			found.status = consuming
			it.settle(rmqdedup.InFlight, found)
		}
		it.answer.Left = max(it.answer.Left, lockWait*time.Second)
	},
}

func init() { acquire.run = (*call).acquire }

// Acquire implements [rmqdedup.Store]. One statement if every key is new; a second one reads what is claimed or DONE, and
// an expired claim takes a third.
func (s *Store) Acquire(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpAcquire, reqs)
}

func (c *call) acquire(items []*item) error {
	items = open(items) // after a lock, some have been answered
	for range maxRounds {
		if len(items) == 0 {
			return nil
		}
		sent := time.Now()
		code, err := c.claim(claimSQL, items)
		if err != nil {
			return err
		}
		if code == 0 { // inserted, each of them
			settleAll(items, rmqdedup.Claimed)
			return nil
		}
		found, err := c.find(items)
		if err != nil {
			return err
		}
		// One key that had a row was not inserted. Of several, those that were have all of their time left.
		took := time.Since(sent)
		if len(items) == 1 {
			took = -1
		}
		var orphans, again []*item
		for _, it := range items {
			switch r := found[it.digest]; {
			case r == nil: // it has been removed since, and is left for the next round
			case r.inFlight() && r.owner != it.req.Owner:
				it.settle(rmqdedup.InFlight, r)
			case r.status == done && r.live():
				it.settle(rmqdedup.Done, r)
			case r.claimOf(it.req.Owner) && took >= 0 && r.fresh(it.req, took):
				it.settle(rmqdedup.Claimed, nil)
			case r.status == consuming && r.owner != it.req.Owner:
				orphans = append(orphans, it)
			default: // its own claim, or DONE past its retention
				again = append(again, it)
			}
		}
		if err := c.takeOver(orphans, found); err != nil {
			return err
		}
		if err := c.reclaim(again); err != nil {
			return err
		}
		items = open(items)
	}
	return errRestless
}

// fresh says whether a claim of the requester's is one that was made within that time, rather than one whose deadline is to be set anew.
func (r *row) fresh(q *rmqdedup.Request, took time.Duration) bool {
	return r.origin.IsZero() && r.grace == millis.Of(q.Grace) && r.left() >= q.Lease-took-Resolution
}

// claim sends a statement that inserts rows, and returns the insert id.
func (c *call) claim(st *statement, items []*item) (code int64, err error) {
	args := make([]any, 0, 12*len(items))
	for _, it := range items {
		args = append(args, it.digest[:], it.req.Owner[:], millis.Of(it.req.Lease), millis.Of(it.req.Grace))
		args = appendMessage(args, it.req)
	}
	result, err := c.exec(c.context(), st, len(items), args)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// reclaim claims keys anew whose rows allow it. What has become of others meanwhile is left for the next round.
func (c *call) reclaim(items []*item) error {
	if len(items) == 0 {
		return nil
	}
	code, err := c.claim(acquireSQL, items)
	if err != nil {
		return err
	}
	if code == 0 { // inserted, each of them
		settleAll(items, rmqdedup.Claimed)
		return nil
	}
	if len(items) == 1 {
		items[0].obey(code)
		return nil
	}
	found, err := c.find(items)
	if err != nil {
		return err
	}
	for _, it := range items {
		if r := found[it.digest]; r != nil && r.claimOf(it.req.Owner) {
			it.settle(claimed(r.origin), nil)
		}
	}
	return nil
}

// claimed is what the owner of a claim is told that has that origin.
func claimed(origin rmqdedup.Owner) rmqdedup.Outcome {
	if origin.IsZero() {
		return rmqdedup.Claimed
	}
	return rmqdedup.TakenOver
}

// obey answers by the insert id of acquire.sql with one row, if that has changed it.
func (it *item) obey(code int64) {
	switch code {
	case 4, 6:
		it.settle(rmqdedup.Claimed, nil)
	case 5:
		it.settle(rmqdedup.TakenOver, nil) // at an earlier try, which had its record
	}
}

// takeOver takes over those orphans that are still as they were found, and leaves the others for the next round.
func (c *call) takeOver(orphans []*item, found map[digest]*row) error {
	for _, group := range alike(orphans, termsOf) {
		r := group[0].req
		args := appendOfKey(make([]any, 0, 11*len(group)+2), group, owner)
		args = append(args, millis.Of(r.Lease), millis.Of(r.Grace))
		args = appendOfKey(args, group, func(it *item) any { return attempt(it.req) })
		args = appendOfKey(args, group, func(it *item) any { return int64(it.req.Fingerprint) })
		args = appendOfKey(args, group, func(it *item) any { return text(it.req.MessageID) })
		args = append(args, keys(group)...)
		args = appendOfKey(args, group, func(it *item) any { return found[it.digest].owner[:] })
		n, err := c.affected(c.context(), takeOverSQL, len(group), args)
		if err != nil {
			return err
		}
		var now map[digest]*row
		if 0 < n && n < len(group) {
			if now, err = c.find(group); err != nil {
				return err
			}
		}
		for _, it := range group {
			was, is := found[it.digest], now[it.digest]
			if n == len(group) || is != nil && is.claimOf(it.req.Owner) && is.origin == was.owner {
				it.settle(rmqdedup.TakenOver, was)
			}
		}
	}
	return nil
}
