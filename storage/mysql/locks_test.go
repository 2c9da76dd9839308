package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A row that a business transaction holds locked is in flight, or told to be locked; it holds up no other key of the call.
func TestLockedRow(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		s := tb.Store(t)
		var reqs []rmqdedup.Request
		for i := range 40 {
			reqs = append(reqs, request(fmt.Sprintf("locked-%d", i)))
		}
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, reqs[:20]...) // and the others are new
		const which = 7
		for _, q := range reqs[:20] {
			tb.Age(t, q.Key, 2*time.Hour) // all expired
		}
		unlock := tb.lock(t, reqs[which].Key)

		others := make([]rmqdedup.Request, len(reqs))
		for i, q := range reqs {
			others[i] = by(q)
		}
		for i, a := range mustDoSome(t, s, rmqdedup.OpAcquire, others) {
			switch {
			case i >= 20 && a.Outcome != rmqdedup.Claimed:
				t.Errorf("acquire of key %d, which is new: %v %v", i, a.Outcome, a.Err)
			case i == which && (a.Outcome != rmqdedup.InFlight || a.Left <= 0 || a.Record == nil):
				t.Errorf("acquire of the locked key: %+v", a)
			case i < 20 && i != which && (a.Outcome != rmqdedup.TakenOver || a.Record == nil || a.Record.Owner != reqs[i].Owner):
				t.Errorf("acquire of key %d, whose claim has expired: %+v", i, a)
			}
		}
		neighbours := []rmqdedup.Request{others[which-1], reqs[which], others[which+1]}
		for _, op := range []rmqdedup.Op{rmqdedup.OpRenew, rmqdedup.OpRelease, rmqdedup.OpComplete} {
			part := neighbours
			answers := mustDoSome(t, s, op, part)
			if a := answers[1]; !errors.Is(a.Err, rmqdedup.ErrLocked) {
				t.Errorf("%v of the locked key: %v %v", op, a.Outcome, a.Err)
			}
			outcome := rmqdedup.Applied
			if op == rmqdedup.OpComplete {
				outcome = rmqdedup.Lost // released just before
			}
			for _, i := range []int{0, 2} {
				if answers[i].Outcome != outcome {
					t.Errorf("%v of its neighbour: %v %v, want %v", op, answers[i].Outcome, answers[i].Err, outcome)
				}
			}
			if a := mustDoSome(t, s, op, part[1:2])[0]; !errors.Is(a.Err, rmqdedup.ErrLocked) {
				t.Errorf("%v of the locked key alone: %v %v", op, a.Outcome, a.Err)
			}
		}
		if a := mustDoSome(t, s, rmqdedup.OpAcquire, others[which:which+1])[0]; a.Outcome != rmqdedup.InFlight || a.Left <= 0 || a.Record == nil || a.Record.Owner != reqs[which].Owner {
			t.Errorf("acquire of the locked key alone: %+v", a)
		}
		unlock()
		want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, reqs[which])

		live := request("live")
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, live)
		unlock = tb.lock(t, live.Key)
		if a := mustDoSome(t, s, rmqdedup.OpAbandon, []rmqdedup.Request{live})[0]; !errors.Is(a.Err, rmqdedup.ErrLocked) {
			t.Errorf("abandon of the locked key: %v %v", a.Outcome, a.Err)
		}
		unlock()
		want(t, s, rmqdedup.Applied, rmqdedup.OpAbandon, live)
	})
}

// What is DONE is DONE, locked or not; a row that is inserted and not committed is in flight, since it may come to be.
func TestLockedDoneAndUncommitted(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		s := tb.Store(t)
		finished, coming, free := request("finished"), request("coming"), request("free")
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, finished)
		want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, finished)
		defer tb.lock(t, finished.Key)()
		want(t, s, rmqdedup.Done, rmqdedup.OpAcquire, by(finished))

		tx, err := tb.admin.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		d := coming.Key.Digest()
		if _, err := tx.Exec("INSERT INTO `"+tb.name+"` VALUES (?, 1, REPEAT('o', 16), REPEAT('x', 16), 1, 2, 0, 0, 0, 0, 1, '', '', '', '', '')", d[:]); err != nil {
			t.Fatal(err)
		}
		answers := mustDoSome(t, s, rmqdedup.OpAcquire, []rmqdedup.Request{by(finished), coming, free})
		for i, outcome := range []rmqdedup.Outcome{rmqdedup.Done, rmqdedup.InFlight, rmqdedup.Claimed} {
			if answers[i].Outcome != outcome {
				t.Errorf("key %d: %v %v, want %v", i, answers[i].Outcome, answers[i].Err, outcome)
			}
		}
	})
}

// mustDoSome sends one call, of which some answers may be errors.
func mustDoSome(t testing.TB, s rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) []rmqdedup.Answer {
	t.Helper()
	answers, err := rmqdedup.Do(context.Background(), s, op, reqs)
	if err != nil {
		t.Fatalf("%v: %v", op, err)
	}
	return answers
}

// A server that takes only small packets gets several statements.
func TestSmallPackets(t *testing.T) {
	dsn := startServer(t, "--max-allowed-packet=16384")
	s := open(t, withOptions(dsn, "migrate=true", "call_timeout=30s"))
	var reqs []rmqdedup.Request
	for i := range 64 {
		reqs = append(reqs, request(fmt.Sprintf("packet-%d-%0500d", i, 0)))
	}
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)
	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, by(reqs[0]), by(reqs[63]))
	want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, reqs...)
}
