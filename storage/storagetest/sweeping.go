package storagetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// enough is a limit that no test reaches.
const enough = 10_000

func (f *fixture) sweeper() rmqdedup.Sweeper {
	f.Helper()
	s, ok := rmqdedup.Find[rmqdedup.Sweeper](f.store)
	if !ok {
		f.Skip("the store is no Sweeper")
	}
	return s
}

// new returns n requests, each for a key and of an owner of its own.
func (f *fixture) new(n int) []rmqdedup.Request {
	var reqs []rmqdedup.Request
	for range n {
		reqs = append(reqs, request(f.newKey(), rmqdedup.NewOwner()))
	}
	return reqs
}

// made is new with the keys in that state.
func (f *fixture) made(s *state, n int) []rmqdedup.Request {
	f.Helper()
	reqs := f.new(n)
	s.make(f, reqs)
	return reqs
}

// expired lists expired claims, with what is true of each such list.
func (f *fixture) expired(s rmqdedup.Sweeper, limit int, orphans bool) []rmqdedup.Record {
	f.Helper()
	records, err := s.Expired(f.ctx, limit, orphans)
	if err != nil {
		f.Fatalf("expired: %v", err)
	}
	if len(records) > limit {
		f.Errorf("expired: %d records; the limit was %d", len(records), limit)
	}
	if !slices.IsSortedFunc(records, func(a, b rmqdedup.Record) int { return a.Until.Compare(b.Until) }) {
		f.Errorf("expired: not in the order of their deadlines")
	}
	for _, r := range records {
		if r.Done || r.Until.IsZero() || r.Owner.IsZero() {
			f.Errorf("expired: %+v; want a claim, with its owner and deadline", r)
		}
	}
	return records
}

// recordsOf returns those of the records that are of the requests' keys, and how many are not.
func recordsOf(records []rmqdedup.Record, reqs []rmqdedup.Request) (of []rmqdedup.Record, others int) {
	for _, r := range records {
		if slices.ContainsFunc(reqs, func(q rmqdedup.Request) bool { return q.Key.Digest() == r.Key.Digest() }) {
			of = append(of, r)
		} else {
			others++
		}
	}
	return of, others
}

// checkExpired lists expired claims among everything else.
func checkExpired(f *fixture) {
	s := f.sweeper()
	for _, other := range []*state{isLive, isLiveTakenOver, isDone, isDoneUnclaimed, isOver, isReleased} {
		f.made(other, 3)
	}
	within, past := f.made(isLive, 6), f.made(isLive, 3)
	without := f.new(2)
	for i := range without {
		without[i].Grace = 0
	}
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, without...)
	for i, q := range within {
		f.age(lease+slack*time.Duration(1+(i*5)%6), q) // in another order than they were claimed in
	}
	f.age(lease+grace+slack, past...)
	f.age(lease+slack/2, without...)
	old := slices.Concat(past, without)

	all := f.expired(s, enough, true)
	mine, others := recordsOf(all, within)
	if len(mine) != len(within) {
		f.Errorf("expired, with orphans: %d records of %d claims within their grace", len(mine), len(within))
	}
	for i, r := range mine {
		at := slices.IndexFunc(within, func(q rmqdedup.Request) bool { return q.Key.Digest() == r.Key.Digest() })
		q := within[at]
		if r.Owner != q.Owner || r.MessageID != q.MessageID || r.Attempt != q.Attempt || r.Fingerprint != q.Fingerprint || r.Grace != q.Grace {
			f.Errorf("expired: %+v; want the claim of %v", r, q.Owner)
		}
		if problem := f.checkKey(r.Key, q.Key); problem != "" {
			f.Errorf("expired: %s", problem)
		}
		if i > 0 && mine[i-1].Until.Sub(r.Until).Abs() < slack/2 {
			f.Errorf("expired: deadlines %v apart; want %v", mine[i-1].Until.Sub(r.Until).Abs(), slack)
		}
	}
	f.someExpired("with orphans", recordCount(all, old), others, len(old))
	beyond := f.expired(s, enough, false)
	if n := recordCount(beyond, within); n > 0 {
		f.Errorf("expired, without orphans: %d claims that are within their grace", n)
	}
	f.someExpired("without orphans", recordCount(beyond, old), len(beyond), len(old))

	first := f.expired(s, 4, true)
	if want := min(4, len(f.expired(s, enough, true))); len(first) != want {
		f.Errorf("expired, at most 4: %d; want %d", len(first), want)
	}
	for i, r := range first {
		if !f.DropsExpired && r.Until.Sub(all[i].Until).Abs() > slack/4 {
			f.Errorf("expired, at most 4: number %d expired at %v; want %v, the first", i, r.Until, all[i].Until)
		}
	}
}

func recordCount(records []rmqdedup.Record, reqs []rmqdedup.Request) int {
	of, _ := recordsOf(records, reqs)
	return len(of)
}

// someExpired compares how many were found of the claims past their grace with how many there are, unless they leave by
// themselves.
func (f *fixture) someExpired(what string, found, others, there int) {
	f.Helper()
	if found != others {
		f.Errorf("expired, %s: %d records of what is no expired claim", what, others-found)
	}
	if found > there || found < there && !f.DropsExpired {
		f.Errorf("expired, %s: %d of %d claims past their grace", what, found, there)
	}
}

// checkClear clears claims that changed after they were read, in every way that they can.
func checkClear(f *fixture) {
	s := f.sweeper()
	clears := func(what string, records []rmqdedup.Record, want int) {
		f.Helper()
		if n, err := s.Clear(f.ctx, records); err != nil || n != want {
			f.Errorf("clear of %s: %d, error %v; want %d", what, n, err, want)
		}
	}
	type change struct {
		what  string
		make  func(q rmqdedup.Request)
		found rmqdedup.Outcome
	}
	changes := []change{
		{"a claim renewed meanwhile", func(q rmqdedup.Request) { f.want(rmqdedup.Applied, rmqdedup.OpRenew, q) }, rmqdedup.InFlight},
		{"a claim renewed meanwhile and expired again", func(q rmqdedup.Request) {
			f.want(rmqdedup.Applied, rmqdedup.OpRenew, q)
			f.age(lease+slack/2, q)
		}, rmqdedup.Orphan},
		{"a claim acquired again by its owner", func(q rmqdedup.Request) { f.one(rmqdedup.OpAcquire, q) }, rmqdedup.InFlight},
		{"a claim taken over", func(q rmqdedup.Request) { f.want(rmqdedup.TakenOver, rmqdedup.OpAcquire, stranger(q)) }, rmqdedup.InFlight},
		{"a claim taken over and abandoned", func(q rmqdedup.Request) {
			next := stranger(q)
			f.want(rmqdedup.TakenOver, rmqdedup.OpAcquire, next)
			f.want(rmqdedup.Applied, rmqdedup.OpAbandon, next)
		}, rmqdedup.Orphan},
		{"a claim completed", func(q rmqdedup.Request) { f.want(rmqdedup.Applied, rmqdedup.OpComplete, q) }, rmqdedup.Done},
		{"a claim released", func(q rmqdedup.Request) { f.want(rmqdedup.Applied, rmqdedup.OpRelease, q) }, rmqdedup.Absent},
		{"a claim released and acquired by another", func(q rmqdedup.Request) {
			f.want(rmqdedup.Applied, rmqdedup.OpRelease, q)
			f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, stranger(q))
		}, rmqdedup.InFlight},
	}
	changed, untouched := f.made(isOrphan, len(changes)), f.made(isOrphan, 3)
	records := f.expired(s, enough, true)
	for i, c := range changes {
		c.make(changed[i])
		record, _ := recordsOf(records, changed[i:i+1])
		clears(c.what, record, 0)
		f.oneOf("clear of "+c.what+", then lookup", f.one(rmqdedup.OpLookup, changed[i]), c.found)
	}
	clears("expired claims among others", records, len(untouched))
	clears("the same again", records, 0)
	clears("nothing", nil, 0)
	for i, c := range changes {
		f.oneOf("clear of "+c.what+" among others, then lookup", f.one(rmqdedup.OpLookup, changed[i]), c.found)
	}
	f.want(rmqdedup.Absent, rmqdedup.OpLookup, untouched...)

	// A live claim, read as it is.
	live := f.made(isLive, 1)[0]
	clears("a live claim, as it was read", []rmqdedup.Record{f.record(live)}, 0)
	f.want(rmqdedup.Applied, rmqdedup.OpComplete, live)
	clears("DONE, as it was read", []rmqdedup.Record{f.record(live)}, 0)
	f.want(rmqdedup.Done, rmqdedup.OpLookup, live)
}

// checkPurge purges DONE past its retention among everything else.
func checkPurge(f *fixture) {
	s := f.sweeper()
	stay := f.made(isDone, 3)
	f.age(retention-slack, stay...)
	claims, orphans, past := f.made(isLive, 3), f.made(isOrphan, 3), f.made(isLive, 2)
	f.age(lease+grace+slack, past...)
	again := f.made(isOver, 2)
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, again...)
	over := f.made(isOver, 25)

	total := 0
	for {
		n, err := s.Purge(f.ctx, 10)
		if err != nil || n > 10 {
			f.Fatalf("purge, at most 10: %d, error %v", n, err)
		}
		total += n
		if n == 0 {
			break
		}
	}
	if total > len(over) || total < len(over) && !f.DropsExpired {
		f.Errorf("purge: %d in all; %d are past their retention", total, len(over))
	}
	f.want(rmqdedup.Done, rmqdedup.OpLookup, stay...)
	f.want(rmqdedup.InFlight, rmqdedup.OpLookup, append(claims, again...)...)
	f.want(rmqdedup.Orphan, rmqdedup.OpLookup, orphans...)
	f.want(rmqdedup.Absent, rmqdedup.OpLookup, over...)
}

// checkJanitors lets several sweep at once, beside owners that come back: each orphan is either cleared, once, or
// renewed. Case 27.
func checkJanitors(f *fixture) {
	s := f.sweeper()
	dead, late := f.made(isOrphan, 200), f.made(isOrphan, 100)
	over, busy := f.made(isOver, 200), f.made(isLive, 50)
	records, _ := recordsOf(f.expired(s, enough, true), append(slices.Clone(dead), late...))

	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		cleared int
		renewed = make([]bool, len(late))
	)
	for range 3 {
		wg.Go(func() {
			for chunk := range slices.Chunk(records, 10) {
				n, err := s.Clear(f.ctx, chunk)
				_, err2 := s.Purge(f.ctx, 10)
				_, err3 := s.Expired(f.ctx, 10, true)
				if err := errors.Join(err, err2, err3); err != nil {
					f.Errorf("sweeping beside other janitors: %v", err)
				}
				mu.Lock()
				cleared += n
				mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		for i := range late {
			at := len(late) - 1 - i // towards the janitors
			answers, err := f.store.Renew(f.ctx, late[at:at+1])
			if err != nil {
				f.Errorf("renew beside janitors: %v", err)
				return
			}
			renewed[at] = answers[0].Outcome == rmqdedup.Applied
		}
	})
	wg.Wait()
	back := 0
	for i, q := range late {
		if renewed[i] {
			back++
			f.oneOf("complete of a claim that was renewed beside janitors", f.one(rmqdedup.OpComplete, q), rmqdedup.Applied)
		} else {
			f.oneOf("lookup of a claim that was cleared", f.one(rmqdedup.OpLookup, q), rmqdedup.Absent)
		}
	}
	if cleared+back != len(records) {
		f.Errorf("of %d orphans three janitors cleared %d and their owners renewed %d; want each to be counted once", len(records), cleared, back)
	}
	f.want(rmqdedup.Absent, rmqdedup.OpLookup, dead...)
	f.want(rmqdedup.Absent, rmqdedup.OpLookup, over...)
	f.want(rmqdedup.Applied, rmqdedup.OpComplete, busy...)
}

// checkSweepContext sweeps with a context that has ended.
func checkSweepContext(f *fixture) {
	s := f.sweeper()
	f.made(isOrphan, 1)
	f.made(isOver, 1)
	records := f.expired(s, enough, true)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := s.Expired(ctx, enough, true)
	_, err2 := s.Clear(ctx, records)
	_, err3 := s.Purge(ctx, enough)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, context.Canceled) {
			f.Errorf("sweeping with a canceled context: %v; want an error that wraps it", err)
		}
	}
}
