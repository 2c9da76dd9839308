package redis

import (
	"context"
	"fmt"

	"github.com/rmqdedup/rmqdedup-go/internal/coalesce"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/internal/millis"
)

// An operation is what one method of [rmqdedup.Store] asks of the server.
type operation struct {
	name   string
	script *script
	many   *script                              // for several keys, whose answers are an array; nil: there is none
	valid  func(*rmqdedup.Request) error        // nil: every request is
	args   func([]any, *rmqdedup.Request) []any // appends ARGV
	parts  bool                                 // records are returned with the key's parts
}

func validLease(r *rmqdedup.Request) error     { return r.ValidateLease(Resolution) }
func validRetention(r *rmqdedup.Request) error { return r.ValidateRetention(Resolution) }

var (
	acquire = operation{
		name: "acquire", script: acquireScript, valid: validLease,
		args: func(a []any, r *rmqdedup.Request) []any {
			record := claim(r)
			return append(a, record[ownerAt:numberAt], lifetime(r), record[ownerAt:])
		},
	}
	renew = operation{
		name: "renew", script: renewScript, valid: validLease,
		args: func(a []any, r *rmqdedup.Request) []any {
			return append(a, string(r.Owner[:]), lifetime(r), appendNumber(nil, millis.Of(r.Grace)))
		},
	}
	complete = operation{
		name: "complete", script: completeScript, many: completeManyScript, valid: validRetention,
		args: func(a []any, r *rmqdedup.Request) []any {
			return append(a, string(r.Owner[:]), millis.Of(r.Retention), rest(r))
		},
	}
	release = operation{
		name: "release", script: releaseScript,
		args: func(a []any, r *rmqdedup.Request) []any { return append(a, string(r.Owner[:])) },
	}
	abandon = operation{
		name: "abandon", script: abandonScript,
		args: func(a []any, r *rmqdedup.Request) []any {
			nobody := rmqdedup.NewOwner()
			return append(a, string(r.Owner[:]), string(nobody[:]))
		},
	}
	lookup = operation{name: "lookup", script: lookupScript, args: noArgs, parts: true}
	forget = operation{name: "forget", script: forgetScript, args: noArgs, parts: true}
)

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

func noArgs(a []any, _ *rmqdedup.Request) []any { return a }

// Acquire implements [rmqdedup.Store]. Two round trips where a claim is found, one otherwise. On Redis 7 and later the record of
// what is Done has no Until.
func (s *Store) Acquire(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpAcquire, reqs)
}

// Renew implements [rmqdedup.Store].
func (s *Store) Renew(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpRenew, reqs)
}

// Complete implements [rmqdedup.Store].
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

// Lookup implements [rmqdedup.Store].
func (s *Store) Lookup(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpLookup, reqs)
}

// Forget implements [rmqdedup.Store].
func (s *Store) Forget(ctx context.Context, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.do(ctx, rmqdedup.OpForget, reqs)
}

// doAlone runs an operation in a pipeline of its own.
func (s *Store) doAlone(ctx context.Context, name rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	op := operations[name]
	if s.closed.Load() {
		return nil, fmt.Errorf("storage/redis: %s: %w", op.name, rmqdedup.ErrClosed)
	}
	if len(reqs) == 0 {
		return []rmqdedup.Answer{}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("storage/redis: %s: %w", op.name, err)
	}
	c, end := s.begin(ctx)
	defer end()
	a, open := c.open(op, reqs)
	a.settleAll(c.send(a.bundle(open)))
	return a.result(len(open))
}

// doAll runs several operations whose first commands share a pipeline. Their context ends for none of them before the time limit.
func (s *Store) doAll(ctx context.Context, calls []coalesce.Part) {
	c, end := s.begin(ctx)
	defer end()
	if s.closed.Load() || !c.inline() {
		for i := range calls {
			calls[i].Answers, calls[i].Err = s.doAlone(ctx, calls[i].Op, calls[i].Requests)
		}
		return
	}
	all := make([]*answers, len(calls))
	opens := make([]int, len(calls))
	bundles := make([]*bundle, len(calls))
	for i := range calls {
		a, open := c.open(operations[calls[i].Op], calls[i].Requests)
		all[i], opens[i], bundles[i] = a, len(open), a.bundle(open)
	}
	c.runAll(bundles)
	for i, a := range all {
		a.settleAll(bundles[i : i+1])
		calls[i].Answers, calls[i].Err = a.result(opens[i])
	}
}

// open returns the answers to come, with those of bad requests, and the requests that are open.
func (c *call) open(op *operation, reqs []rmqdedup.Request) (a *answers, open []int) {
	a = &answers{call: c, op: op, reqs: reqs, all: make([]rmqdedup.Answer, len(reqs))}
	open = make([]int, 0, len(reqs))
	for i := range reqs {
		if op.valid != nil {
			if err := op.valid(&reqs[i]); err != nil {
				a.fail(i, err)
				continue
			}
		}
		open = append(open, i)
	}
	return a, open
}

// result returns what the method of the store returns.
func (a *answers) result(open int) ([]rmqdedup.Answer, error) {
	if a.lost > 0 && (a.lost == open || a.gaveUp) {
		return nil, fmt.Errorf("storage/redis: %s: %w", a.op.name, a.why)
	}
	return a.all, nil
}
