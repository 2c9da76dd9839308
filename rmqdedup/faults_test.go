package rmqdedup_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

var errAway = errors.New("the store is away")

// faults stands between a wrapper and its store: it notes every call and lets a rule spoil it.
type faults struct {
	mu    sync.Mutex
	rule  rmqdedup.Interceptor
	calls []storeCall
}

type storeCall struct {
	op   rmqdedup.Op
	reqs []rmqdedup.Request
}

func (f *faults) intercept(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	f.mu.Lock()
	f.calls = append(f.calls, storeCall{op, slices.Clone(reqs)})
	rule := f.rule
	f.mu.Unlock()
	if rule == nil {
		return rmqdedup.Do(ctx, next, op, reqs)
	}
	return rule(ctx, next, op, reqs)
}

// set makes rule hold from now on; nil lets everything pass.
func (f *faults) set(rule rmqdedup.Interceptor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule = rule
}

// callsOf returns the requests of each call of an operation so far.
func (f *faults) callsOf(op rmqdedup.Op) [][]rmqdedup.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found [][]rmqdedup.Request
	for _, c := range f.calls {
		if c.op == op {
			found = append(found, c.reqs)
		}
	}
	return found
}

// only restricts a rule to some operations.
func only(rule rmqdedup.Interceptor, ops ...rmqdedup.Op) rmqdedup.Interceptor {
	return func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		if slices.Contains(ops, op) {
			return rule(ctx, next, op, reqs)
		}
		return rmqdedup.Do(ctx, next, op, reqs)
	}
}

// firstTimes lets a rule hold for that many calls, and nothing after that.
func firstTimes(times int, rule rmqdedup.Interceptor) rmqdedup.Interceptor {
	var mu sync.Mutex
	return func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		mu.Lock()
		times--
		over := times < 0
		mu.Unlock()
		if over {
			return rmqdedup.Do(ctx, next, op, reqs)
		}
		return rule(ctx, next, op, reqs)
	}
}

// away is a store that cannot be reached.
func away(context.Context, rmqdedup.Store, rmqdedup.Op, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return nil, errAway
}

// replyLost is a store that does what it is asked, and whose answer is lost on its way.
func replyLost(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	if _, err := rmqdedup.Do(ctx, next, op, reqs); err != nil {
		return nil, err
	}
	return nil, errAway
}

// hanging is a store that does not answer, until the caller gives up or its own time limit of three seconds is over.
func hanging(ctx context.Context, _ rmqdedup.Store, _ rmqdedup.Op, _ []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Second, errAway)
	defer cancel()
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// awayFor is a store of which the part that has some keys is away.
func awayFor(ids ...string) rmqdedup.Interceptor {
	return func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		answers := make([]rmqdedup.Answer, len(reqs))
		for i, r := range reqs {
			if slices.Contains(ids, r.Key.Value) {
				answers[i].Err = errAway
				continue
			}
			one, err := rmqdedup.Do(ctx, next, op, []rmqdedup.Request{r})
			if err != nil {
				return nil, err
			}
			answers[i] = one[0]
		}
		return answers, nil
	}
}
