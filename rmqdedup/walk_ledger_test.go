package rmqdedup_test

import (
	"context"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A ledger stands right in front of the table and sees what is really done to it, whatever its callers are told.
type ledger struct {
	w       *world
	store   rmqdedup.Store
	rows    map[[32]byte]*ledgerRow
	given   map[rmqdedup.Owner]int  // by which entry an owner was last given its claim
	lost    map[rmqdedup.Owner]bool // owners that were told that they have no claim
	entries int                     // so many; they have an order also at one moment
}

// A ledgerRow is what the table has of one key.
type ledgerRow struct {
	owner             rmqdedup.Owner // of a claim, past its deadline or not
	done              bool
	doneAt, doneUntil time.Time
	everDone          bool
	doneBy            int  // which entry
	dropped           bool // a completion of it was given up, or died with its process
}

func newLedger(w *world, table rmqdedup.Store) *ledger {
	l := &ledger{w: w, rows: make(map[[32]byte]*ledgerRow), given: make(map[rmqdedup.Owner]int), lost: make(map[rmqdedup.Owner]bool)}
	l.store = rmqdedup.Intercept(table, l.see)
	return l
}

// row is the key's row. The world's mutex is held.
func (l *ledger) row(key [32]byte) *ledgerRow {
	row := l.rows[key]
	if row == nil {
		row = &ledgerRow{}
		l.rows[key] = row
	}
	return row
}

func (l *ledger) see(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	answers, err := rmqdedup.Do(ctx, next, op, reqs)
	for i := range answers {
		l.enter(op, &reqs[i], answers[i])
	}
	return answers, err
}

// enter notes what was done, and judges it.
func (l *ledger) enter(op rmqdedup.Op, q *rmqdedup.Request, a rmqdedup.Answer) {
	l.entries++
	w, row, now := l.w, l.row(q.Key.Digest()), time.Now()
	w.note("    the table: %v of %v by %.4v: %v%s", op, w.keyNames([]rmqdedup.Request{*q})[0], q.Owner, a.Outcome, left(a))
	switch {
	case a.Outcome == rmqdedup.Claimed || a.Outcome == rmqdedup.TakenOver:
		row.owner, row.done = q.Owner, false
		l.given[q.Owner] = l.entries
		if a.Outcome == rmqdedup.TakenOver {
			w.saw("taken over")
		}
	case op == rmqdedup.OpRenew && a.Outcome == rmqdedup.Lost:
		l.lost[q.Owner] = true
	case op == rmqdedup.OpComplete:
		w.judgeCompletion(q)
		if a.Outcome == rmqdedup.Lost {
			l.lost[q.Owner] = true
		}
		if a.Outcome != rmqdedup.Done {
			row.done, row.everDone, row.doneAt, row.doneUntil = true, true, now, now.Add(q.Retention)
			row.doneBy, row.owner = l.entries, rmqdedup.Owner{}
		}
	case op == rmqdedup.OpRelease && a.Outcome == rmqdedup.Applied:
		w.judgeRelease(q)
		row.owner = rmqdedup.Owner{}
	case op == rmqdedup.OpAbandon && a.Outcome == rmqdedup.Applied:
		w.judgeAbandon(q)
		row.owner = rmqdedup.Owner{}
	}
}

func left(a rmqdedup.Answer) string {
	if a.Left > 0 {
		return ", " + a.Left.String() + " left"
	}
	return ""
}
