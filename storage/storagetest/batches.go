package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// checkBadRequests sends requests that no store can serve among others that it can.
func checkBadRequests(f *fixture) {
	type change struct {
		what   string
		figure time.Duration
		apply  func(q *rmqdedup.Request, figure time.Duration)
	}
	setLease := func(q *rmqdedup.Request, d time.Duration) { q.Lease = d }
	setGrace := func(q *rmqdedup.Request, d time.Duration) { q.Grace = d }
	setRetention := func(q *rmqdedup.Request, d time.Duration) { q.Retention = d }
	ofClaims := []change{{"lease", 0, setLease}, {"lease", -time.Second, setLease}, {"grace", -time.Second, setGrace}}
	ofDone := []change{{"retention", 0, setRetention}, {"retention", -time.Second, setRetention}}
	if below := f.resolution - 1; below > 0 {
		ofClaims = append(ofClaims, change{"lease", below, setLease})
		ofDone = append(ofDone, change{"retention", below, setRetention})
	}
	cases := []struct {
		op      rmqdedup.Op
		changes []change
		claimed bool // before
		good    rmqdedup.Outcome
		found   rmqdedup.Outcome // where the request was bad
	}{
		{rmqdedup.OpAcquire, ofClaims, false, rmqdedup.Claimed, rmqdedup.Absent},
		{rmqdedup.OpRenew, ofClaims, true, rmqdedup.Applied, rmqdedup.InFlight},
		{rmqdedup.OpComplete, ofDone, true, rmqdedup.Applied, rmqdedup.InFlight},
	}
	for _, c := range cases {
		var reqs []rmqdedup.Request
		for range 2*len(c.changes) + 1 {
			reqs = append(reqs, request(f.newKey(), rmqdedup.NewOwner()))
		}
		if c.claimed {
			f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)
		}
		for i, change := range c.changes {
			change.apply(&reqs[2*i+1], change.figure) // the odd ones are bad
		}
		for i, a := range f.do(c.op, reqs...) {
			if i%2 == 0 {
				f.oneOf(c.op.String()+" beside a bad request", a, c.good)
				continue
			}
			change := c.changes[i/2]
			what := c.op.String() + " with a " + change.what + " of " + change.figure.String()
			f.badRequest(what, a.Err)
			if a.Err != nil && !strings.Contains(a.Err.Error(), change.figure.String()) {
				f.Errorf("%s: error %q; it should give the figure", what, a.Err)
			}
			f.oneOf(what+", then lookup", f.one(rmqdedup.OpLookup, reqs[i]), c.found)
		}
	}

	bad := request(f.newKey(), rmqdedup.NewOwner())
	good := stranger(bad)
	bad.Lease = 0
	answers := f.do(rmqdedup.OpAcquire, bad, good)
	f.badRequest("acquire with a lease of 0, before another of the same key", answers[0].Err)
	f.oneOf("acquire behind a bad request for the same key", answers[1], rmqdedup.Claimed)

	least := request(f.newKey(), rmqdedup.NewOwner())
	least.Lease, least.Retention = f.resolution, f.resolution
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, least)
	if a := f.one(rmqdedup.OpComplete, least); a.Outcome != rmqdedup.Applied && a.Outcome != rmqdedup.Lost {
		f.Errorf("complete with a retention of %v: %s", f.resolution, describe(a))
	}
}

// checkLongTimes uses the longest times that a caller can write down, which must not turn into short ones.
func checkLongTimes(f *fixture) {
	const years = 100 * 365 * 24 * time.Hour
	q := request(f.newKey(), rmqdedup.NewOwner())
	q.Lease, q.Grace, q.Retention = years, years, years
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
	if a := f.one(rmqdedup.OpLookup, q); a.Outcome != rmqdedup.InFlight || a.Left < years-slack {
		f.Errorf("a lease of 100 years: %s", describe(a))
	}
	f.age(years+slack, q)
	f.oneOf("a grace of 100 years", f.one(rmqdedup.OpLookup, q), rmqdedup.Orphan)
	f.want(rmqdedup.Applied, rmqdedup.OpRenew, q)
	f.want(rmqdedup.Applied, rmqdedup.OpComplete, q)
	f.age(years-slack, q)
	f.oneOf("a retention of 100 years", f.one(rmqdedup.OpLookup, q), rmqdedup.Done)
}

// checkSameKeyTwice has one key several times in a call. The requests must act one after the other.
func checkSameKeyTwice(f *fixture) {
	const (
		fresh, taken, busy = rmqdedup.Claimed, rmqdedup.TakenOver, rmqdedup.InFlight
		ok, lost, none     = rmqdedup.Applied, rmqdedup.Lost, rmqdedup.Absent
		done               = rmqdedup.Done
	)
	a, b, c := rmqdedup.NewOwner(), rmqdedup.NewOwner(), rmqdedup.NewOwner()
	type outcomes = []rmqdedup.Outcome
	cases := []struct {
		state *state // whose holder is a
		op    rmqdedup.Op
		asks  []rmqdedup.Owner
		want  outcomes
		left  rmqdedup.Outcome
		of    rmqdedup.Owner // whose record is left
		lease time.Duration  // of what is left: the nth request asks for n+1 hours
	}{
		{isAbsent, rmqdedup.OpAcquire, []rmqdedup.Owner{a, b, a}, outcomes{fresh, busy, fresh}, busy, a, 3 * time.Hour},
		{isOver, rmqdedup.OpAcquire, []rmqdedup.Owner{b, a, b, c}, outcomes{fresh, busy, fresh, busy}, busy, b, 3 * time.Hour},
		{isOrphan, rmqdedup.OpAcquire, []rmqdedup.Owner{b, c, b}, outcomes{taken, busy, taken}, busy, b, 3 * time.Hour},
		{isLive, rmqdedup.OpAcquire, []rmqdedup.Owner{b, c}, outcomes{busy, busy}, busy, a, lease},
		{isLive, rmqdedup.OpRenew, []rmqdedup.Owner{a, a, b}, outcomes{ok, ok, lost}, busy, a, 2 * time.Hour},
		{isLive, rmqdedup.OpRenew, []rmqdedup.Owner{b, a, b}, outcomes{lost, ok, lost}, busy, a, 2 * time.Hour},
		{isLive, rmqdedup.OpComplete, []rmqdedup.Owner{b, a, b}, outcomes{lost, done, done}, done, b, 0},
		{isLive, rmqdedup.OpComplete, []rmqdedup.Owner{a, b, a}, outcomes{ok, done, done}, done, a, 0},
		{isAbsent, rmqdedup.OpComplete, []rmqdedup.Owner{b, b}, outcomes{lost, done}, done, b, 0},
		{isLive, rmqdedup.OpRelease, []rmqdedup.Owner{b, a, a}, outcomes{lost, ok, lost}, none, b, 0},
		{isLive, rmqdedup.OpAbandon, []rmqdedup.Owner{b, a, a}, outcomes{lost, ok, lost}, rmqdedup.Orphan, rmqdedup.Owner{}, 0},
		{isLive, rmqdedup.OpLookup, []rmqdedup.Owner{a, b}, outcomes{busy, busy}, busy, a, lease},
		{isDone, rmqdedup.OpForget, []rmqdedup.Owner{a, b}, outcomes{ok, none}, none, b, 0},
		{isOrphan, rmqdedup.OpForget, []rmqdedup.Owner{a, b}, outcomes{ok, none}, none, b, 0},
	}
	for _, crowd := range []int{0, 30} { // keys beside it in the same call
		for _, c := range cases {
			before := request(f.newKey(), a)
			c.state.make(f, []rmqdedup.Request{before})
			var reqs []rmqdedup.Request
			var places []int
			for i, owner := range c.asks {
				for range crowd {
					reqs = append(reqs, request(f.newKey(), rmqdedup.NewOwner()))
				}
				q := by(owner, before)
				q.Lease = time.Duration(i+1) * time.Hour
				places = append(places, len(reqs))
				reqs = append(reqs, q)
			}
			var got outcomes
			answers := f.do(c.op, reqs...)
			for _, i := range places {
				got = append(got, answers[i].Outcome)
			}
			what := fmt.Sprintf("%v of one key %d times in a call of %d, on %s", c.op, len(c.asks), len(reqs), c.state.name)
			if !slices.Equal(got, c.want) {
				f.Errorf("%s: %v; want %v, as if sent one after the other", what, got, c.want)
				continue
			}
			left := f.one(rmqdedup.OpLookup, before)
			f.oneOf(what+", then lookup", left, c.left)
			if r := left.Record; r != nil && !c.of.IsZero() && r.Owner != c.of {
				f.Errorf("%s: then it is %v's; want %v's", what, r.Owner, c.of)
			}
			if left.Outcome == busy && (left.Left > c.lease+f.resolution || left.Left < c.lease-slack) {
				f.Errorf("%s: then %v are left; want %v", what, left.Left, c.lease)
			}
		}
	}
}
