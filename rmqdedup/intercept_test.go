package rmqdedup_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// everyOp calls each operation of a store by its method.
func everyOp(s rmqdedup.Store) map[rmqdedup.Op]func(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return map[rmqdedup.Op]func(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error){
		rmqdedup.OpAcquire: s.Acquire, rmqdedup.OpRenew: s.Renew, rmqdedup.OpComplete: s.Complete, rmqdedup.OpRelease: s.Release,
		rmqdedup.OpAbandon: s.Abandon, rmqdedup.OpLookup: s.Lookup, rmqdedup.OpForget: s.Forget,
	}
}

func TestInterceptStandsBeforeEveryOperation(t *testing.T) {
	next := memoryStore(t)
	var got rmqdedup.Op
	var gotReqs []rmqdedup.Request
	answers := []rmqdedup.Answer{{Outcome: rmqdedup.Orphan}}
	s := rmqdedup.Intercept(next, func(_ context.Context, to rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		if to != rmqdedup.Store(next) {
			t.Error("the interceptor is given another store")
		}
		got, gotReqs = op, reqs
		return answers, errAway
	})
	reqs := []rmqdedup.Request{{Key: keyOf("1")}}
	for op, call := range everyOp(s) {
		back, err := call(context.Background(), reqs)
		if got != op || !reflect.DeepEqual(gotReqs, reqs) || !reflect.DeepEqual(back, answers) || !errors.Is(err, errAway) {
			t.Errorf("%v arrives as %v and returns %v, %v", op, got, back, err)
		}
	}
}

// Do calls the operation that it is asked for.
func TestDo(t *testing.T) {
	var called rmqdedup.Op
	spy := make(spyStore)
	for op := rmqdedup.OpAcquire; op <= rmqdedup.OpForget; op++ {
		spy[op] = func() { called = op }
	}
	for op := rmqdedup.OpAcquire; op <= rmqdedup.OpForget; op++ {
		if _, err := rmqdedup.Do(context.Background(), spy, op, nil); err != nil || called != op {
			t.Errorf("Do of %v called %v, %v", op, called, err)
		}
	}
	for _, op := range []rmqdedup.Op{0, rmqdedup.OpForget + 1} {
		if _, err := rmqdedup.Do(context.Background(), spy, op, nil); !errors.Is(err, rmqdedup.ErrBadRequest) {
			t.Errorf("Do of %v: %v", op, err)
		}
	}
}

// spyStore tells which of its methods is called.
type spyStore map[rmqdedup.Op]func()

func (s spyStore) call(op rmqdedup.Op) ([]rmqdedup.Answer, error) {
	s[op]()
	return nil, nil
}

func (s spyStore) Acquire(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(rmqdedup.OpAcquire)
}
func (s spyStore) Renew(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(rmqdedup.OpRenew)
}
func (s spyStore) Complete(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(rmqdedup.OpComplete)
}
func (s spyStore) Release(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(rmqdedup.OpRelease)
}
func (s spyStore) Abandon(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(rmqdedup.OpAbandon)
}
func (s spyStore) Lookup(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(rmqdedup.OpLookup)
}
func (s spyStore) Forget(context.Context, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return s.call(rmqdedup.OpForget)
}

func TestFind(t *testing.T) {
	leaf := memoryStore(t)
	pass := rmqdedup.Do
	wrapped := rmqdedup.Intercept(rmqdedup.Intercept(leaf, pass), pass)
	if found, ok := rmqdedup.Find[*memory.Store](wrapped); !ok || found != leaf {
		t.Errorf("two wraps deep: %v, %v", found, ok)
	}
	if _, ok := rmqdedup.Find[rmqdedup.Sweeper](wrapped); !ok {
		t.Error("the leaf's Sweeper is not found")
	}
	if found, ok := rmqdedup.Find[rmqdedup.Store](wrapped); !ok || found != wrapped {
		t.Error("the first one that fits is the outermost")
	}
	if found, ok := rmqdedup.Find[rmqdedup.Resolver](coarse{wrapped}); !ok || found.Resolution() != coarse.Resolution(coarse{}) {
		t.Error("a wrapper's own Resolution comes before the leaf's")
	}
	if _, ok := rmqdedup.Find[rmqdedup.Lister](make(spyStore)); ok {
		t.Error("a Lister was found where there is none")
	}
	if _, ok := rmqdedup.Find[rmqdedup.Lister](nil); ok {
		t.Error("a Lister was found in nothing")
	}
	if _, ok := rmqdedup.Find[rmqdedup.Lister](rmqdedup.Intercept(nil, pass)); ok {
		t.Error("a Lister was found before nothing")
	}
}
