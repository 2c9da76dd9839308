package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

const (
	// maxKeys is how many keys share a statement.
	maxKeys = 64
	// maxBytes is about how long the keys of a statement may get, where the server allows more (max_allowed_packet: MySQL's default is 64 MiB, MariaDB's 16 MiB).
	maxBytes = 256 << 10
	// apart is how long a key goes alone whose row was found locked.
	apart = 5 * time.Second
	// fixedBytes is more than what the longest statement has beside its keys.
	fixedBytes = 4 << 10
)

// An operation is what one method of [rmqdedup.Store] does for keys that all differ, in the order of their digests.
type operation struct {
	name  string
	valid func(*rmqdedup.Request) error // nil: every request is
	run   func(c *call, items []*item) error
	// locked answers a request whose row a transaction of somebody else holds locked; nil: with an error.
	locked func(it *item, found *row)
}

// An item is one request of a call, on its way to its answer.
type item struct {
	req    *rmqdedup.Request
	digest digest
	answer *rmqdedup.Answer
}

func (it *item) settled() bool { return it.answer.Outcome != 0 || it.answer.Err != nil }

// settle answers, with the record that was found, if any.
func (it *item) settle(outcome rmqdedup.Outcome, found *row) {
	*it.answer = rmqdedup.Answer{Outcome: outcome}
	if found == nil {
		return
	}
	it.answer.Record = found.record()
	if outcome == rmqdedup.InFlight {
		it.answer.Left = found.left()
	}
}

// operations are those of all methods.
var operations = [...]*operation{
	rmqdedup.OpAcquire:  &acquire,
	rmqdedup.OpRenew:    &renew,
	rmqdedup.OpComplete: &complete,
	rmqdedup.OpRelease:  &release,
	rmqdedup.OpAbandon:  &abandon,
	rmqdedup.OpLookup:   &lookup,
	rmqdedup.OpForget:   &forget,
}

// do runs an operation, together with what other goroutines ask for at the same time.
func (s *Store) do(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	if s.calls == nil {
		return s.doAlone(ctx, op, reqs)
	}
	return s.calls.Do(ctx, op, reqs)
}

func (s *Store) doAlone(parent context.Context, name rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	op := operations[name]
	c, err := s.newCall(parent, op)
	if err != nil {
		return nil, fmt.Errorf("storage/mysql: %s: %w", op.name, err)
	}
	defer c.end()
	answers := make([]rmqdedup.Answer, len(reqs))
	items := make([]*item, 0, len(reqs))
	own := make([]item, len(reqs))
	for i := range reqs {
		own[i] = item{req: &reqs[i], digest: reqs[i].Key.Digest(), answer: &answers[i]}
		if op.valid != nil {
			if err := op.valid(&reqs[i]); err != nil {
				answers[i].Err = fmt.Errorf("storage/mysql: %s %v: %w", op.name, reqs[i].Key, err)
				continue
			}
		}
		items = append(items, &own[i])
	}
	room, err := c.room()
	if err != nil {
		return nil, fmt.Errorf("storage/mysql: %s: %w", op.name, c.explain(err))
	}
	var unknown int
	var why error
	for _, chunk := range chunks(items, room) {
		err := c.serve(chunk)
		if err == nil {
			continue
		}
		err = c.explain(err)
		for _, it := range chunk {
			if it.settled() {
				continue
			}
			it.answer.Err = fmt.Errorf("storage/mysql: %s %v: %w", op.name, it.req.Key, err)
			if unknown++; unknown == 1 {
				why = err
			}
		}
	}
	if unknown > 0 && (unknown == len(items) || parent.Err() != nil) {
		return nil, fmt.Errorf("storage/mysql: %s: %w", op.name, why)
	}
	return answers, nil
}

// chunks puts items into groups that can share a statement, to be served one after the other: keys in them differ and are sorted, as
// otherwise statements that have keys in common deadlock, and those of one key are in the order of the call.
func chunks(items []*item, room int) (all [][]*item) {
	if len(items) == 1 {
		return [][]*item{items}
	}
	for len(items) > 0 {
		seen := make(map[digest]bool, len(items))
		var now, later []*item
		for _, it := range items {
			if seen[it.digest] {
				later = append(later, it)
				continue
			}
			seen[it.digest] = true
			now = append(now, it)
		}
		slices.SortFunc(now, func(a, b *item) int { return bytes.Compare(a.digest[:], b.digest[:]) })
		from, size := 0, 0
		for i, it := range now {
			n := it.size()
			if i > from && (i-from == maxKeys || size+n > room) {
				all = append(all, now[from:i])
				from, size = i, 0
			}
			size += n
		}
		all = append(all, now[from:])
		items = later
	}
	return all
}

// size is about how many bytes of a statement an item takes: its texts may double when they are escaped.
func (it *item) size() int {
	k := it.req.Key
	return 256 + 2*(min(len(k.Group)+len(k.Topic)+len(k.Tag)+len(k.Value), maxText)+min(len(it.req.MessageID), maxText))
}

// serve runs the operation for a chunk. Where rows are locked, it does so for the others, and answers for the locked ones.
func (c *call) serve(items []*item) error {
	err := c.op.run(c, items)
	switch {
	case err == nil:
		return nil
	case !locked(err):
		if len(items) > 1 && c.concernsSome(err) {
			return c.oneByOne(items)
		}
		return err
	case len(items) == 1:
		return c.blocked(items[0])
	}
	rest, err := c.withoutLocked(open(items))
	if err != nil {
		return err
	}
	if err = c.op.run(c, rest); !locked(err) {
		return err
	}
	// Locked by something that cannot be seen, such as an insert that is not committed: find out one by one.
	for _, it := range open(rest) {
		err = c.op.run(c, []*item{it})
		if locked(err) {
			err = c.blocked(it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// concernsSome says whether what failed for several keys may succeed for some of them. What is wrong with the server, or with the table, is
// wrong for all.
func (c *call) concernsSome(err error) bool {
	var refused *mysqldriver.MySQLError
	switch {
	case c.late(), c.parent.Err() != nil, c.closed.Load():
		return false
	case errors.As(err, &refused), tooLong(err):
		return tooLong(err) || c.hint(err) == "" && !gaveWay(err)
	}
	return broken(err)
}

// oneByOne runs the operation for each of the items that are not settled, of which one may be what the others have failed of.
func (c *call) oneByOne(items []*item) error {
	const most = 2 // connections that break
	breaks := 0
	for _, it := range open(items) {
		err := c.op.run(c, []*item{it})
		if locked(err) {
			err = c.blocked(it)
		}
		if err == nil {
			continue
		}
		if broken(err) {
			breaks++
		}
		if c.late() || breaks == most {
			return err
		}
		it.answer.Err = fmt.Errorf("storage/mysql: %s %v: %w", c.op.name, it.req.Key, c.explain(err))
	}
	return nil
}

func open(items []*item) []*item {
	return slices.DeleteFunc(slices.Clone(items), (*item).settled)
}

// withoutLocked answers for those items whose rows are locked, and returns the others. It waits for no lock.
func (c *call) withoutLocked(items []*item) (rest []*item, err error) {
	unlocked, err := c.digests(c.context(), unlockedSQL, len(items), keys(items)...)
	if unsupported(err) {
		return items, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := c.find(items)
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		r := found[it.digest]
		if r == nil || slices.Contains(unlocked, it.digest) {
			rest = append(rest, it)
			continue
		}
		c.answerLocked(it, r)
	}
	return rest, nil
}

// blocked answers for one item whose row is locked.
func (c *call) blocked(it *item) error {
	found, err := c.find([]*item{it})
	if err == nil {
		c.answerLocked(it, found[it.digest])
	}
	return err
}

func (c *call) answerLocked(it *item, found *row) {
	if c.op.locked != nil {
		c.op.locked(it, found)
	}
	if c.calls != nil { // those that it met have waited with it
		c.calls.Apart(it.req.Key, apart)
	}
	if !it.settled() {
		it.answer.Err = fmt.Errorf("storage/mysql: %s %v: %w for longer than %d s", c.op.name, it.req.Key, rmqdedup.ErrLocked, lockWait)
	}
}

// find reads the rows of items.
func (c *call) find(items []*item) (map[digest]*row, error) {
	if len(items) == 0 {
		return nil, nil
	}
	rows, err := c.query(c.context(), readSQL, len(items), keys(items)...)
	if err != nil {
		return nil, err
	}
	found := make(map[digest]*row, len(rows))
	for _, r := range rows {
		found[r.digest] = r
	}
	return found, nil
}

// keys are the arguments of {keys}. As []byte, which no driver takes for text.
func keys(items []*item) []any {
	args := make([]any, len(items), 4*len(items)+2)
	for i, it := range items {
		args[i] = it.digest[:]
	}
	return args
}

// appendOfKey appends the arguments of {of key}.
func appendOfKey(args []any, items []*item, of func(*item) any) []any {
	if len(items) == 1 {
		return append(args, of(items[0]))
	}
	for _, it := range items {
		args = append(args, it.digest[:], of(it))
	}
	return args
}

func owner(it *item) any { return it.req.Owner[:] }

// alike splits items, without changing their order, into groups of which the statement's other arguments are the same.
func alike[T comparable](items []*item, of func(*rmqdedup.Request) T) [][]*item {
	var groups [][]*item
	at := make(map[T]int)
	for _, it := range items {
		what := of(it.req)
		i, ok := at[what]
		if !ok {
			i = len(groups)
			at[what] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], it)
	}
	return groups
}
