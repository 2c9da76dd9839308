package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

func older(info any, major int) bool {
	text, _ := info.(string)
	_, version, _ := strings.Cut(text, "redis_version:")
	return len(version) > 0 && int(version[0]-'0') < major
}

// At its memory limit a server refuses what is new, changes nothing in doing so, and goes on with what claims need.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t))
	claim, leaving, finished := request("claim"), request("leaving"), request("finished")
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, claim, leaving, finished)
	want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, finished)
	orphan := request("orphan")
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, orphan)
	want(t, s, rmqdedup.Applied, rmqdedup.OpAbandon, orphan)

	srv.do(t, "config", "set", "maxmemory", "1")
	unchanged := func(r rmqdedup.Request) {
		t.Helper()
		a := want(t, s, rmqdedup.InFlight, rmqdedup.OpLookup, r)[0]
		if a.Record.Owner != r.Owner || a.Left > r.Lease || a.Left < r.Lease-time.Minute {
			t.Errorf("the claim is now %+v, %v left", a.Record, a.Left)
		}
	}

	for range 2 { // the second time the scripts are known
		wantErr(t, s, rmqdedup.ErrFull, rmqdedup.OpAcquire, request("new"), claim, orphan)
		wantErr(t, s, rmqdedup.ErrFull, rmqdedup.OpComplete, claim, request("new"))
	}
	unchanged(claim)
	want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, request("new"))
	want(t, s, rmqdedup.Orphan, rmqdedup.OpLookup, orphan)
	want(t, s, rmqdedup.Done, rmqdedup.OpAcquire, request("finished"))
	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, request("claim"))

	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, claim)
	claim.Grace = 5 * time.Hour // the record is rewritten
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, claim)
	unchanged(claim)
	if a := do(t, s, rmqdedup.OpLookup, claim)[0]; a.Record.Grace != claim.Grace {
		t.Errorf("the grace is %v; want that of the renewal, %v", a.Record.Grace, claim.Grace)
	}
	want(t, s, rmqdedup.Applied, rmqdedup.OpAbandon, claim)
	want(t, s, rmqdedup.Lost, rmqdedup.OpRenew, claim)
	want(t, s, rmqdedup.Applied, rmqdedup.OpRelease, leaving)
	want(t, s, rmqdedup.Applied, rmqdedup.OpForget, orphan)

	srv.do(t, "config", "set", "maxmemory", "0")
	want(t, s, rmqdedup.TakenOver, rmqdedup.OpAcquire, request("claim"))
}

// What the package documentation says of the memory that a key takes.
func TestMemoryOfAKey(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t))
	r := request("order-1234")
	r.Key = rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", "order-1234")
	r.MessageID = "7F00000100002A9F0000000000000001"
	want(t, s, rmqdedup.Lost, rmqdedup.OpComplete, r)
	if got := srv.do(t, "memory", "usage", redisName(r)).(int64); got > 240 {
		t.Errorf("a key takes %d bytes; the documentation says 232", got)
	}
}
