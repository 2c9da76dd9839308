package redis_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A hook sees what a client sends, and may change a pipeline.
type hook struct {
	trips    atomic.Int64
	pipeline func([]goredis.Cmder) []goredis.Cmder
	returned func() // called when a pipeline has come back
}

func (h *hook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *hook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if cmd.Name() != "ping" { // which measures the round trip, now and then
			h.trips.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (h *hook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		h.trips.Add(1)
		if h.pipeline != nil {
			cmds = h.pipeline(cmds)
		}
		if h.returned != nil {
			defer h.returned()
		}
		return next(ctx, cmds)
	}
}

// tripsOf returns how many round trips f takes.
func (h *hook) tripsOf(f func()) int64 {
	before := h.trips.Load()
	f()
	return h.trips.Load() - before
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	c := srv.client(t)
	s := newStore(t, c)
	// Connections are made beforehand: a hook sees that too.
	want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, request("a"))
	want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, request("a"), request("b"))
	h := new(hook)
	c.AddHook(h)

	reqs := requests(1000)
	for _, step := range []struct {
		what    string
		op      rmqdedup.Op
		outcome rmqdedup.Outcome
		reqs    []rmqdedup.Request
		most    int64
	}{
		{"new keys", rmqdedup.OpAcquire, rmqdedup.Claimed, reqs, 1},
		{"keys of others", rmqdedup.OpAcquire, rmqdedup.InFlight, strangers(reqs...), 3}, // the third makes the script known
		{"keys of others again", rmqdedup.OpAcquire, rmqdedup.InFlight, strangers(reqs...), 2},
		{"claims", rmqdedup.OpRenew, rmqdedup.Applied, reqs, 2},
		{"claims again", rmqdedup.OpRenew, rmqdedup.Applied, reqs, 1},
		{"claims", rmqdedup.OpComplete, rmqdedup.Applied, reqs, 2},
		{"what is done", rmqdedup.OpAcquire, rmqdedup.Done, strangers(reqs...), 1},
		{"what is done", rmqdedup.OpComplete, rmqdedup.Done, reqs, 1},
		{"one key", rmqdedup.OpAcquire, rmqdedup.Done, reqs[:1], 1},
	} {
		trips := h.tripsOf(func() { want(t, s, step.outcome, step.op, step.reqs...) })
		if old := srv.do(t, "info", "server"); step.op == rmqdedup.OpAcquire && older(old, 7) {
			step.most += 2 // no SET with NX and GET
		}
		if trips > step.most {
			t.Errorf("%v of %s: %d round trips for %d keys; want at most %d", step.op, step.what, trips, len(step.reqs), step.most)
		}
	}
}

func TestScriptsUnknownToTheServer(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	c := srv.client(t)
	s := newStore(t, c)
	h := new(hook)
	c.AddHook(h)

	reqs := requests(101)
	flush := func() { srv.do(t, "script", "flush", "sync") }

	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)
	flush()
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, reqs...)
	flush()
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, reqs[:1]...)
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, reqs...)

	// Now the flush comes while a pipeline is under way: what is before it has been answered, what is behind it has not.
	inserted := false
	h.pipeline = func(cmds []goredis.Cmder) []goredis.Cmder {
		if inserted {
			return cmds
		}
		inserted = true
		return slices.Insert(slices.Clone(cmds), len(cmds)/2, goredis.Cmder(goredis.NewCmd(t.Context(), "script", "flush")))
	}
	trips := h.tripsOf(func() { want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, reqs...) })
	if !inserted || trips != 2 {
		t.Errorf("a flush amid the pipeline: inserted %v, %d round trips; want it to be sent, and the unanswered half again", inserted, trips)
	}
	inserted = false
	want(t, s, rmqdedup.Applied, rmqdedup.OpRelease, reqs...)
	want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, reqs...)
}

// A script must not act twice because half of a pipeline was sent again.
func TestFlushAmidAcquires(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	c := srv.client(t)
	s := newStore(t, c)
	first := requests(64)
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, first...)
	want(t, s, rmqdedup.Applied, rmqdedup.OpAbandon, first...)

	h := &hook{pipeline: func(cmds []goredis.Cmder) []goredis.Cmder {
		return slices.Insert(slices.Clone(cmds), len(cmds)/2, goredis.Cmder(goredis.NewCmd(t.Context(), "script", "flush")))
	}}
	c.AddHook(h)
	second := strangers(first...)
	want(t, s, rmqdedup.TakenOver, rmqdedup.OpAcquire, second...)
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, second...)
}
