package main

import (
	"context"
	"fmt"
	"time"
)

// units of the store's cells
const (
	opsPerSecond      = "ops/s" // store operations, or SET NX
	messagesPerSecond = "msgs/s"
	p99Microseconds   = "p99-us"
)

// only makes a measurement of what finds one figure.
func only(unit string, run func(context.Context, time.Duration) (float64, error)) measurement {
	return func(ctx context.Context, d time.Duration) (figures, error) {
		v, err := run(ctx, d)
		return figures{unit: v}, err
	}
}

// measurement is that of a process by so many callers.
func (p *process) measurement(callers int) measurement {
	l := p.load(callers)
	return only(messagesPerSecond, func(ctx context.Context, d time.Duration) (float64, error) { return p.run(ctx, l, d) })
}

// An againstFloor compares a store with the least that its server can do for a message, with one key a call.
type againstFloor struct {
	store    string
	handlers int
	target   float64
}

func (c againstFloor) cell() cell {
	name := fmt.Sprintf("store=%s/handlers=%d", c.store, c.handlers)
	if c.store == "redis" {
		return cell{name, c.openRedis, []row{faster("store operations : SET NX", opsPerSecond, atLeast(c.target))}}
	}
	return cell{name, c.openSQL, []row{faster("messages : INSERT + UPDATE", messagesPerSecond, atLeast(c.target))}}
}

func (c againstFloor) product(ctx context.Context, s *stage) (*stateTable, *process, error) {
	t, err := newStateTable(ctx, s, c.store)
	if err != nil {
		return nil, nil, err
	}
	store, err := t.open(ctx, s, c.handlers)
	return t, &process{store: store, keys: 1}, err
}

func (c againstFloor) openRedis(ctx context.Context, s *stage) (pair, error) {
	t, p, err := c.product(ctx, s)
	if err != nil {
		return pair{}, err
	}
	floor, err := newSetNX(t, c.handlers)
	if err != nil {
		return pair{}, err
	}
	l := p.load(c.handlers)
	operations := func(ctx context.Context, d time.Duration) (float64, error) {
		messages, err := p.run(ctx, l, d)
		return 2 * messages, err // a claim and a completion
	}
	return pair{only(opsPerSecond, floor.run), only(opsPerSecond, operations)}, nil
}

func (c againstFloor) openSQL(ctx context.Context, s *stage) (pair, error) {
	t, p, err := c.product(ctx, s)
	if err != nil {
		return pair{}, err
	}
	floor, err := newRawSQL(ctx, s, t, c.handlers, 1)
	if err != nil {
		return pair{}, err
	}
	l := &load{callers: c.handlers, keys: 1, task: floor.messages}
	return pair{only(messagesPerSecond, l.run), p.measurement(c.handlers)}, nil
}

// An againstLimit compares a store's calls of several keys with the same by hand.
type againstLimit struct {
	store string
	keys  int
	rule  rule
}

const batchCallers = 4

func (c againstLimit) cell() cell {
	return cell{
		fmt.Sprintf("batch/store=%s/keys=%d", c.store, c.keys), c.open,
		[]row{faster("messages : by hand", messagesPerSecond, c.rule)},
	}
}

func (c againstLimit) open(ctx context.Context, s *stage) (pair, error) {
	t, err := newStateTable(ctx, s, c.store)
	if err != nil {
		return pair{}, err
	}
	store, err := t.open(ctx, s, batchCallers)
	if err != nil {
		return pair{}, err
	}
	l := &load{callers: batchCallers, keys: c.keys}
	if t.isSQL() {
		limit, err := newRawSQL(ctx, s, t, batchCallers, c.keys)
		if err != nil {
			return pair{}, err
		}
		l.task = limit.messages
	} else {
		limit, err := newRawPipeline(s, t, batchCallers, c.keys)
		if err != nil {
			return pair{}, err
		}
		l.task = limit.messages
	}
	p := &process{store: store, keys: c.keys}
	return pair{only(messagesPerSecond, l.run), p.measurement(batchCallers)}, nil
}

// A withDuplicates compares a store where every second message is a duplicate with the same where none is.
type withDuplicates struct {
	store    string
	handlers int
}

func (c withDuplicates) cell() cell {
	return cell{
		fmt.Sprintf("duplicates=50%%/store=%s/handlers=%d", c.store, c.handlers), c.open,
		[]row{faster("messages : without duplicates", messagesPerSecond, reported())},
	}
}

func (c withDuplicates) open(ctx context.Context, s *stage) (pair, error) {
	t, err := newStateTable(ctx, s, c.store)
	if err != nil {
		return pair{}, err
	}
	store, err := t.open(ctx, s, c.handlers)
	if err != nil {
		return pair{}, err
	}
	without := &process{store: store, space: "a-", keys: 1}
	with := &process{store: store, space: "b-", keys: 1, duplicates: true}
	return pair{without.measurement(c.handlers), with.measurement(c.handlers)}, nil
}
