package rmqdedup

import (
	"context"
	"fmt"
)

// An Op names one of a store's operations.
type Op uint8

// The operations of a [Store].
const (
	OpAcquire Op = iota + 1
	OpRenew
	OpComplete
	OpRelease
	OpAbandon
	OpLookup
	OpForget
)

var opNames = [...]string{"no operation", "acquire", "renew", "complete", "release", "abandon", "lookup", "forget"}

// String returns the operation's name in lower case.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Do calls the operation that op names on s.
func Do(ctx context.Context, s Store, op Op, reqs []Request) ([]Answer, error) {
	switch op {
	case OpAcquire:
		return s.Acquire(ctx, reqs)
	case OpRenew:
		return s.Renew(ctx, reqs)
	case OpComplete:
		return s.Complete(ctx, reqs)
	case OpRelease:
		return s.Release(ctx, reqs)
	case OpAbandon:
		return s.Abandon(ctx, reqs)
	case OpLookup:
		return s.Lookup(ctx, reqs)
	case OpForget:
		return s.Forget(ctx, reqs)
	}
	return nil, fmt.Errorf("%w: there is no operation %v", ErrBadRequest, op)
}

// An Interceptor stands in front of every operation of a store. It usually calls [Do] on next, with what it
// was given or something else, once, never or several times.
type Interceptor func(ctx context.Context, next Store, op Op, reqs []Request) ([]Answer, error)

// Intercept returns a store that sends every operation on next through f, for instance to time it, to count it, or to make it fail in a
// test. Optional interfaces of next are found through it ([Find]).
func Intercept(next Store, f Interceptor) Store {
	return &intercepted{next: next, f: f}
}

type intercepted struct {
	next Store
	f    Interceptor
}

func (s *intercepted) Unwrap() Store { return s.next }

func (s *intercepted) Acquire(ctx context.Context, reqs []Request) ([]Answer, error) {
	return s.f(ctx, s.next, OpAcquire, reqs)
}

func (s *intercepted) Renew(ctx context.Context, reqs []Request) ([]Answer, error) {
	return s.f(ctx, s.next, OpRenew, reqs)
}

func (s *intercepted) Complete(ctx context.Context, reqs []Request) ([]Answer, error) {
	return s.f(ctx, s.next, OpComplete, reqs)
}

func (s *intercepted) Release(ctx context.Context, reqs []Request) ([]Answer, error) {
	return s.f(ctx, s.next, OpRelease, reqs)
}

func (s *intercepted) Abandon(ctx context.Context, reqs []Request) ([]Answer, error) {
	return s.f(ctx, s.next, OpAbandon, reqs)
}

func (s *intercepted) Lookup(ctx context.Context, reqs []Request) ([]Answer, error) {
	return s.f(ctx, s.next, OpLookup, reqs)
}

func (s *intercepted) Forget(ctx context.Context, reqs []Request) ([]Answer, error) {
	return s.f(ctx, s.next, OpForget, reqs)
}
