package storagetest

import (
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// checkLateOwner lets an owner come back after its claim expired and another took it over. Case 8.
func checkLateOwner(f *fixture) {
	for _, finish := range []rmqdedup.Op{rmqdedup.OpRelease, rmqdedup.OpAbandon, rmqdedup.OpRenew, rmqdedup.OpComplete} {
		late := request(f.newKey(), rmqdedup.NewOwner())
		f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, late)
		f.age(lease+slack, late)
		now := stranger(late)
		f.want(rmqdedup.TakenOver, rmqdedup.OpAcquire, now)

		what := "the owner whose claim was taken over: " + finish.String()
		f.oneOf(what, f.one(finish, late), rmqdedup.Lost)
		found := f.one(rmqdedup.OpLookup, now)
		if finish != rmqdedup.OpComplete {
			f.oneOf(what+", then lookup", found, rmqdedup.InFlight)
			f.ofOwner(what, found, now.Owner)
			f.oneOf(what+", then the one who took over renews", f.one(rmqdedup.OpRenew, now), rmqdedup.Applied)
			f.oneOf(what+", then the one who took over completes", f.one(rmqdedup.OpComplete, now), rmqdedup.Applied)
			f.oneOf(what+", and then once more", f.one(finish, late), rmqdedup.Lost)
			f.oneOf(what+", and then lookup", f.one(rmqdedup.OpLookup, now), rmqdedup.Done)
			continue
		}
		// The work was done, whoever did it; the claim was lost all the same.
		f.oneOf(what+", then lookup", found, rmqdedup.Done)
		f.ofOwner(what, found, late.Owner)
		f.oneOf(what+", then the one who took over renews", f.one(rmqdedup.OpRenew, now), rmqdedup.Lost)
		f.oneOf(what+", then the one who took over releases", f.one(rmqdedup.OpRelease, now), rmqdedup.Lost)
		f.oneOf(what+", then the one who took over completes", f.one(rmqdedup.OpComplete, now), rmqdedup.Done)
	}
}

// ofOwner reports a record that is not that owner's.
func (f *fixture) ofOwner(what string, a rmqdedup.Answer, owner rmqdedup.Owner) {
	f.Helper()
	if a.Record == nil || a.Record.Owner != owner {
		f.Errorf("%s: then %s; want the record of %v", what, describe(a), owner)
	}
}

// checkLostReply lets owners send again what they sent before, as one does whose reply was lost.
func checkLostReply(f *fixture) {
	for _, s := range []*state{isLive, isLiveTakenOver} {
		q := request(f.newKey(), rmqdedup.NewOwner())
		s.make(f, []rmqdedup.Request{q})
		mark := s.row.mark
		again := func(when string) {
			f.Helper()
			f.age(lease/2, q)
			f.oneOf("an owner acquires "+s.name+" of its own again, "+when, f.one(rmqdedup.OpAcquire, q), mark)
			if left := f.one(rmqdedup.OpAcquire, stranger(q)).Left; left < lease-slack || left > lease+f.resolution {
				f.Errorf("an owner acquires %s of its own again, %s, half of it gone: then %v are left; want %v, the deadline set anew", s.name, when, left, lease)
			}
		}
		again("at once")
		again("twice")
		f.want(rmqdedup.Applied, rmqdedup.OpRenew, q)
		again("after renewing it")
		f.age(lease+slack, q)
		f.want(rmqdedup.Applied, rmqdedup.OpRenew, q)
		again("after renewing it past its deadline")

		f.oneOf("complete", f.one(rmqdedup.OpComplete, q), rmqdedup.Applied)
		f.oneOf("complete again", f.one(rmqdedup.OpComplete, q), rmqdedup.Done)
		f.oneOf("acquire by the owner, after it completed", f.one(rmqdedup.OpAcquire, q), rmqdedup.Done)
	}

	// A takeover's mark ends with the claim.
	q := request(f.newKey(), rmqdedup.NewOwner())
	isLiveTakenOver.make(f, []rmqdedup.Request{q})
	f.want(rmqdedup.Applied, rmqdedup.OpRelease, q)
	f.oneOf("release again", f.one(rmqdedup.OpRelease, q), rmqdedup.Lost)
	f.oneOf("acquire after releasing a takeover", f.one(rmqdedup.OpAcquire, q), rmqdedup.Claimed)
	f.oneOf("acquire again after that", f.one(rmqdedup.OpAcquire, q), rmqdedup.Claimed)
}

// checkAbandon lets owners give up acquires whose answers they do not know.
func checkAbandon(f *fixture) {
	// It had taken over: the orphan remains to be seen, by whoever comes next.
	first := request(f.newKey(), rmqdedup.NewOwner())
	second, third := stranger(first), stranger(first)
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, first)
	f.age(lease+slack, first)
	f.want(rmqdedup.TakenOver, rmqdedup.OpAcquire, second)
	f.oneOf("abandon of a takeover", f.one(rmqdedup.OpAbandon, second), rmqdedup.Applied)
	f.oneOf("abandon again", f.one(rmqdedup.OpAbandon, second), rmqdedup.Lost)
	f.oneOf("abandon of a takeover, then lookup", f.one(rmqdedup.OpLookup, first), rmqdedup.Orphan)
	for _, old := range []rmqdedup.Request{first, second} {
		for _, op := range []rmqdedup.Op{rmqdedup.OpRenew, rmqdedup.OpRelease, rmqdedup.OpAbandon} {
			f.oneOf("after an abandon, by an owner of before: "+op.String(), f.one(op, old), rmqdedup.Lost)
		}
	}
	f.oneOf("abandon of a takeover, then acquire", f.one(rmqdedup.OpAcquire, third), rmqdedup.TakenOver)
	f.oneOf("abandon by an owner of before", f.one(rmqdedup.OpAbandon, second), rmqdedup.Lost)
	f.oneOf("complete by an owner of before that abandoned", f.one(rmqdedup.OpComplete, second), rmqdedup.Lost)
	f.oneOf("complete by an owner of before, then lookup", f.one(rmqdedup.OpLookup, first), rmqdedup.Done)

	// It had not been answered claimed: another's claim is left alone.
	q := request(f.newKey(), rmqdedup.NewOwner())
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
	f.oneOf("abandon by one who holds nothing", f.one(rmqdedup.OpAbandon, stranger(q)), rmqdedup.Lost)
	f.oneOf("abandon by one who holds nothing, then complete", f.one(rmqdedup.OpComplete, q), rmqdedup.Applied)

	// The orphan is seen for its grace, counted from the abandon.
	q = request(f.newKey(), rmqdedup.NewOwner())
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
	f.want(rmqdedup.Applied, rmqdedup.OpAbandon, q)
	f.age(grace-slack, q)
	f.oneOf("an abandoned claim, within its grace", f.one(rmqdedup.OpLookup, q), rmqdedup.Orphan)

	// Without grace it may be forgotten, but can be claimed at once, and its owner has no power over it.
	q = request(f.newKey(), rmqdedup.NewOwner())
	q.Grace = 0
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
	f.want(rmqdedup.Applied, rmqdedup.OpAbandon, q)
	f.oneOf("a claim without grace, abandoned, then lookup", f.one(rmqdedup.OpLookup, q), rmqdedup.Absent, rmqdedup.Orphan)
	f.oneOf("a claim without grace, abandoned, then renewed", f.one(rmqdedup.OpRenew, q), rmqdedup.Lost)
	f.oneOf("a claim without grace, abandoned, then acquired", f.one(rmqdedup.OpAcquire, stranger(q)), rmqdedup.Claimed, rmqdedup.TakenOver)

	// An operator frees a live claim: a lookup, then an abandon with the owner that was read.
	q = request(f.newKey(), rmqdedup.NewOwner())
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
	f.oneOf("forget of a live claim", f.one(rmqdedup.OpForget, q), rmqdedup.InFlight)
	read := f.record(rmqdedup.Request{Key: q.Key})
	f.oneOf("abandon with the owner that was read", f.one(rmqdedup.OpAbandon, rmqdedup.Request{Key: q.Key, Owner: read.Owner}), rmqdedup.Applied)
	f.oneOf("abandon with the owner that was read, then acquire", f.one(rmqdedup.OpAcquire, stranger(q)), rmqdedup.TakenOver)
}

// checkDoneStays tries everything on a key that is DONE, by its owner and by others: none of it changes the record, nor
// its retention.
func checkDoneStays(f *fixture) {
	q := request(f.newKey(), rmqdedup.NewOwner())
	isDone.make(f, []rmqdedup.Request{q})
	before := f.record(q)
	for _, times := range []struct{ lease, grace, retention time.Duration }{
		{lease, grace, 3 * retention},
		{lease, grace, retention / 8},
		{f.resolution, 0, f.resolution},
	} {
		for _, asks := range []rmqdedup.Request{q, stranger(q)} {
			asks.Lease, asks.Grace, asks.Retention = times.lease, times.grace, times.retention
			for _, op := range []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpRenew, rmqdedup.OpComplete, rmqdedup.OpRelease, rmqdedup.OpAbandon} {
				f.one(op, asks)
				if r := f.record(q); !sameRecord(r, before) {
					f.Fatalf("%v on DONE, with a retention of %v: then the record is %+v; want %+v, as before", op, asks.Retention, r, before)
				}
			}
		}
	}
	f.age(retention-slack, q)
	f.oneOf("DONE, before its retention ends", f.one(rmqdedup.OpLookup, q), rmqdedup.Done)
	f.age(2*slack, q)
	f.oneOf("DONE, past its retention", f.one(rmqdedup.OpLookup, q), rmqdedup.Absent)
	f.oneOf("DONE, past its retention, then forget", f.one(rmqdedup.OpForget, q), rmqdedup.Absent)
	f.oneOf("DONE, past its retention, then complete", f.one(rmqdedup.OpComplete, q), rmqdedup.Lost)
	f.age(retention-slack, q)
	f.oneOf("DONE once more, before its retention ends", f.one(rmqdedup.OpAcquire, stranger(q)), rmqdedup.Done)
	f.age(2*slack, q)
	next := stranger(q)
	f.oneOf("DONE once more, past its retention, then acquire", f.one(rmqdedup.OpAcquire, next), rmqdedup.Claimed)
	f.oneOf("and then again", f.one(rmqdedup.OpAcquire, next), rmqdedup.Claimed)
}

// sameRecord compares records but for the precision of their times: a store may work them out anew at each look.
func sameRecord(a, b rmqdedup.Record) bool {
	near := func(s, t time.Time) bool { return s.Sub(t).Abs() < slack }
	if !near(a.DoneAt, b.DoneAt) || !near(a.Until, b.Until) {
		return false
	}
	a.DoneAt, a.Until = b.DoneAt, b.Until
	return a == b
}
