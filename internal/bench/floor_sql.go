package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A rawSQL writes as little to the store's own table as messages need: a prepared INSERT, and a prepared UPDATE by primary key. With more than one
// message a call both are of so many rows, in the order of their keys, which is the fastest.
type rawSQL struct {
	keys           int
	insert, update *sql.Stmt
}

func newRawSQL(ctx context.Context, s *stage, t *stateTable, callers, keys int) (*rawSQL, error) {
	db, err := t.db(callers)
	if err != nil {
		return nil, err
	}
	s.close(db)
	r := &rawSQL{keys: keys}
	if r.insert, err = db.PrepareContext(ctx, insertText(t.name, keys)); err != nil {
		return nil, err
	}
	s.close(r.insert)
	if r.update, err = db.PrepareContext(ctx, updateText(t.name, keys)); err != nil {
		return nil, err
	}
	s.close(r.update)
	return r, nil
}

func insertText(table string, rows int) string {
	const values = "(?, 1, ?, '', 1, ?, 0, 0, 0, ?, 1, ?, ?, ?, ?, ?)"
	return "INSERT INTO `" + table + "` (digest, status, owner, origin, claimed_at, expires_at, grace, done_at, attempt, fingerprint, key_kind, " +
		"consumer_group, topic, tag, key_value, message_id) VALUES " + values + strings.Repeat(", "+values, rows-1)
}

func updateText(table string, rows int) string {
	const set = " SET status = 2, expires_at = ?, done_at = 2 WHERE digest "
	if rows == 1 {
		return "UPDATE `" + table + "`" + set + "= ?"
	}
	return "UPDATE `" + table + "` FORCE INDEX (PRIMARY)" + set + "IN (?" + strings.Repeat(", ?", rows-1) + ")"
}

// messages writes those from first on. It makes the same requests as the product's side does, which is then no difference.
func (r *rawSQL) messages(ctx context.Context, first int) error {
	type message struct {
		rmqdedup.Request
		digest [sha256.Size]byte
	}
	all := make([]message, r.keys)
	for i := range all {
		value := "floor-" + strconv.Itoa(first+i)
		all[i] = message{requestFor(value, first+i), sha256.Sum256([]byte(value))}
	}
	slices.SortFunc(all, func(a, b message) int { return cmp.Compare(string(a.digest[:]), string(b.digest[:])) })
	now := time.Now().UnixMilli()
	insert := make([]any, 0, 9*len(all))
	update := append(make([]any, 0, 1+len(all)), now+all[0].Retention.Milliseconds())
	for i := range all {
		m := &all[i]
		insert = append(insert, m.digest[:], m.Owner[:], now+m.Lease.Milliseconds(), int64(m.Fingerprint), //nolint:gosec // any bits will do
			m.Key.Group, m.Key.Topic, m.Key.Tag, m.Key.Value, m.MessageID)
		update = append(update, m.digest[:])
	}
	if err := execute(ctx, r.insert, len(all), insert); err != nil {
		return fmt.Errorf("INSERT: %w", err)
	}
	if err := execute(ctx, r.update, len(all), update); err != nil {
		return fmt.Errorf("UPDATE: %w", err)
	}
	return nil
}

// execute executes a statement that has to change so many rows.
func execute(ctx context.Context, statement *sql.Stmt, rows int, args []any) error {
	result, err := statement.ExecContext(ctx, args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n != int64(rows) {
		err = fmt.Errorf("it changed %d of %d rows", n, rows)
	}
	return err
}
