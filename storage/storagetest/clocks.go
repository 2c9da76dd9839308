package storagetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// checkGraces has owners with different graces on one table, as during a deployment that changes it. What counts is the
// grace written with the claim, not the reader's.
func checkGraces(f *fixture) {
	other := f.on(f.table.Store(f))
	none := request(f.newKey(), rmqdedup.NewOwner())
	none.Grace = 0
	long := request(f.newKey(), rmqdedup.NewOwner())
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, none)
	other.want(rmqdedup.Claimed, rmqdedup.OpAcquire, long)

	// asked returns the request of a reader with that grace.
	asked := func(q rmqdedup.Request, g time.Duration) rmqdedup.Request {
		q = stranger(q)
		q.Grace = g
		return q
	}
	if left := f.one(rmqdedup.OpLookup, asked(long, 0)).Left; left > lease+f.resolution {
		f.Errorf("a reader without grace sees %v left of a claim of %v with a grace of %v", left, lease, grace)
	}
	if a := other.one(rmqdedup.OpAcquire, asked(none, grace)); a.Outcome != rmqdedup.InFlight || a.Left < lease-slack {
		f.Errorf("one with a grace of %v acquires a claim of %v without grace: %s", grace, lease, describe(a))
	}

	f.age(lease+slack, none, long)
	f.oneOf("an orphan, looked up by a reader without grace", f.one(rmqdedup.OpLookup, asked(long, 0)), rmqdedup.Orphan)
	f.oneOf("a claim without grace, past its deadline, looked up by a reader with one", other.one(rmqdedup.OpLookup, asked(none, grace)), rmqdedup.Absent, rmqdedup.Orphan)
	f.age(grace-2*slack, long)
	f.oneOf("an orphan at the end of its grace, looked up by a reader without", f.one(rmqdedup.OpLookup, asked(long, 0)), rmqdedup.Orphan)
	f.oneOf("an orphan at the end of its grace, acquired by one without", f.one(rmqdedup.OpAcquire, asked(long, 0)), rmqdedup.TakenOver)

	// The grace is set anew by each acquire and renew of the owner.
	for _, op := range []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpRenew} {
		q := request(f.newKey(), rmqdedup.NewOwner())
		q.Grace = 0
		f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
		q.Grace = newGrace
		f.one(op, q)
		if left := f.one(rmqdedup.OpLookup, q).Left; left > lease+f.resolution || left < lease-slack {
			f.Errorf("%v with a longer grace: then %v are left; want %v", op, left, lease)
		}
		f.age(lease+newGrace-slack, q)
		f.oneOf(op.String()+" with a longer grace: the orphan within it", f.one(rmqdedup.OpLookup, q), rmqdedup.Orphan)
	}
}

// checkDeadline looks at claims shortly before and after their deadlines. Case 12.
func checkDeadline(f *fixture) {
	for _, renewed := range []bool{false, true} {
		q := request(f.newKey(), rmqdedup.NewOwner())
		f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
		until := lease
		if renewed {
			f.age(lease/2, q)
			q.Lease = newLease
			until = newLease
			f.want(rmqdedup.Applied, rmqdedup.OpRenew, q)
		}
		f.age(until-slack, q)
		for _, op := range []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpLookup, rmqdedup.OpForget} {
			a := f.one(op, stranger(q))
			f.oneOf("shortly before the deadline: "+op.String(), a, rmqdedup.InFlight)
			if a.Left > slack+f.resolution {
				f.Errorf("%v before the deadline: %s", slack, describe(a))
			}
		}
		f.age(slack, q)
		f.oneOf("past the deadline: lookup", f.one(rmqdedup.OpLookup, q), rmqdedup.Orphan)
		f.oneOf("past the deadline: acquire", f.one(rmqdedup.OpAcquire, stranger(q)), rmqdedup.TakenOver)
	}
}

// checkRealTime lets leases run out by themselves: the one test that waits. No takeover may come before its lease has
// passed since the claim was asked for, by this process's monotonic clock, nor much later. The leases end all over a
// second, for stores that round to one. Case 12.
func checkRealTime(f *fixture) {
	const patience = 20 * time.Second
	claims := f.new(10)
	for i := range claims {
		claims[i].Lease = max(800*time.Millisecond, 2*f.resolution) + time.Duration(i)*70*time.Millisecond
	}
	sent := time.Now()
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, claims...)
	claimed := time.Now()

	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for len(claims) > 0 {
		asked := make([]rmqdedup.Request, len(claims))
		for i, q := range claims {
			asked[i] = stranger(q)
		}
		answers := f.do(rmqdedup.OpAcquire, asked...)
		now := time.Now()
		var open []rmqdedup.Request
		for i, q := range claims {
			early, late := q.Lease-now.Sub(sent), now.Sub(claimed)-q.Lease
			switch a := answers[i]; {
			case a.Outcome == rmqdedup.InFlight && late > patience:
				f.Fatalf("a lease of %v, %v after it should have ended: %s", q.Lease, late, describe(a))
			case a.Outcome == rmqdedup.InFlight:
				open = append(open, q)
			case a.Outcome != rmqdedup.TakenOver:
				f.Fatalf("a lease of %v, after %v: %s", q.Lease, now.Sub(sent), describe(a))
			case early > f.resolution:
				f.Errorf("a lease of %v was taken over %v too early", q.Lease, early)
			}
		}
		claims = open
		select {
		case <-poll.C:
		case <-f.ctx.Done():
			f.Fatal(f.ctx.Err())
		}
	}
}

// checkServerClock uses the table from a process whose clock is decades behind, which is what a testing/synctest bubble
// is, and from this one, which to the other is decades ahead. Neither may see the other's claims as over, nor its DONE.
func checkServerClock(f *fixture) {
	if !f.ServerClock {
		f.Skip("the harness does not declare ServerClock")
	}
	t, ok := f.TB.(interface{ bubble(func(t testing.TB)) })
	if !ok {
		t = bubbles{f.TB.(*testing.T)}
	}
	mine, theirs := request(f.newKey(), rmqdedup.NewOwner()), request(f.newKey(), rmqdedup.NewOwner())
	myDone, theirDone := request(f.newKey(), rmqdedup.NewOwner()), request(f.newKey(), rmqdedup.NewOwner())
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, mine, myDone)
	f.want(rmqdedup.Applied, rmqdedup.OpComplete, myDone)
	t.bubble(func(t testing.TB) {
		past := *f
		past.TB, past.ctx, past.store = t, t.Context(), f.table.Store(t)
		past.want(rmqdedup.Claimed, rmqdedup.OpAcquire, theirs, theirDone)
		past.want(rmqdedup.Applied, rmqdedup.OpComplete, theirDone)
		past.stillThere("from a process whose clock is years behind", mine, myDone)
	})
	f.stillThere("from a process whose clock is years ahead", theirs, theirDone)
	f.age(lease+slack, theirs)
	f.oneOf("an orphan whose owner's clock is years behind", f.one(rmqdedup.OpAcquire, stranger(theirs)), rmqdedup.TakenOver)
}

func (f *fixture) stillThere(from string, claim, done rmqdedup.Request) {
	f.Helper()
	for _, op := range []rmqdedup.Op{rmqdedup.OpLookup, rmqdedup.OpAcquire} {
		a := f.one(op, stranger(claim))
		f.oneOf("a claim, seen "+from, a, rmqdedup.InFlight)
		if a.Left > lease+f.resolution || a.Left < lease-slack {
			f.Errorf("a claim, seen %s: %v are left; want %v", from, a.Left, lease)
		}
		f.oneOf("DONE, seen "+from, f.one(op, stranger(done)), rmqdedup.Done)
	}
}

type bubbles struct{ *testing.T }

func (t bubbles) bubble(f func(t testing.TB)) {
	synctest.Test(t.T, func(t *testing.T) { f(t) })
}
