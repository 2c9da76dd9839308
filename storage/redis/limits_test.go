package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// clients are those whose calls have to end in time: one that heeds contexts by itself, one as go-redis makes it, and one that would wait long.
var clients = []struct {
	name    string
	options func(*goredis.Options)
}{
	{"heeds contexts", func(o *goredis.Options) { o.ContextTimeoutEnabled = true }},
	{"ignores contexts", func(*goredis.Options) {}},
	{"ignores contexts and waits long", func(o *goredis.Options) { o.ReadTimeout = time.Hour }},
}

// A server that takes connections and never answers must hold up no call longer than its time limit or its context allow.
func TestSilentServer(t *testing.T) {
	const limit, patience = 300 * time.Millisecond, 5 * time.Second
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t)
			s := newStore(t, srv.client(t, c.options), within(limit))
			claim := request("claim")
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, claim)

			srv.stop(t)
			defer srv.carryOn(t)
			for _, n := range []int{1, 100} { // for one the connection has been made, for the pipeline it has yet to be
				for _, op := range allOps {
					reqs := append(requests(n-1), claim)
					begin := time.Now()
					_, err := rmqdedup.Do(context.Background(), s, op, reqs)
					if took := time.Since(begin); took < limit || took > limit+patience {
						t.Errorf("%v of %d keys took %v; want the limit, %v", op, n, took, limit)
					}
					if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), limit.String()) {
						t.Errorf("%v of %d keys: error %v; want one that wraps DeadlineExceeded and names the limit", op, n, err)
					}
				}
			}
			srv.carryOn(t)
			// What had been sent may act now. The claim may be done, or gone, but the store is there again.
			eventually(t, "the store answers", func() bool {
				_, err := s.Lookup(t.Context(), []rmqdedup.Request{claim})
				return err == nil
			})
		})
	}
}

// The caller's context ends a call at once, though the limit is far.
func TestSilentServerAndContext(t *testing.T) {
	const patience = 5 * time.Second
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t)
			s := newStore(t, srv.client(t, c.options), within(time.Hour))
			want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, request("key"))
			srv.stop(t)
			defer srv.carryOn(t)
			const after = 100 * time.Millisecond
			for _, n := range []int{1, 100} {
				for _, how := range []error{context.DeadlineExceeded, context.Canceled} {
					ctx, cancel := context.WithCancel(t.Context())
					timer := time.AfterFunc(after, cancel)
					if errors.Is(how, context.DeadlineExceeded) {
						timer.Stop()
						ctx, cancel = context.WithTimeout(t.Context(), after)
					}
					begin := time.Now()
					if _, err := s.Acquire(ctx, requests(n)); !errors.Is(err, how) {
						t.Errorf("%d keys: error %v; want %v", n, err, how)
					}
					if took := time.Since(begin); took > patience {
						t.Errorf("%d keys: a call whose context ended after %v took %v", n, after, took)
					}
					cancel()
				}
			}
		})
	}
}

// More calls than a client that ignores contexts may have under way end in time all the same.
func TestManyCallsOnSilentServer(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t, func(o *goredis.Options) { o.PoolSize = 10 }), within(200*time.Millisecond))
	want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, request("key"))
	srv.stop(t)
	begin := time.Now()
	var all sync.WaitGroup
	for range 1500 {
		all.Go(func() {
			if _, err := s.Acquire(context.Background(), []rmqdedup.Request{request("key")}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("1500 calls took %v", took)
	}
	srv.carryOn(t)
	eventually(t, "the store answers", func() bool {
		_, err := s.Lookup(t.Context(), []rmqdedup.Request{request("key")})
		return err == nil
	})
}

// What goes on after its call has been given up works on nothing that the call's caller has. The race detector sees to that.
func TestAbandonedCall(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	c := srv.client(t)
	s := newStore(t, c)
	reqs := requests(10)
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trips, returned := 0, make(chan struct{})
	c.AddHook(&hook{
		pipeline: func(cmds []goredis.Cmder) []goredis.Cmder {
			if trips++; trips == 2 { // the first found that the server does not know the script
				cancel()
				// A signal from the caller would put what it reads before what follows here, and hide a race.
				<-time.After(100 * time.Millisecond)
			}
			return cmds
		},
		returned: func() {
			if trips == 2 {
				close(returned)
			}
		},
	})
	srv.do(t, "script", "flush")
	if _, err := s.Renew(ctx, reqs); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v; want one that wraps Canceled", err)
	}
	clear(reqs)
	<-returned
}
