package storagetest

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// claimants is how many owners race for a key.
const claimants = 100

// handles returns n stores on the table, the fixture's own among them.
func (f *fixture) handles(n int) []rmqdedup.Store {
	stores := []rmqdedup.Store{f.store}
	for len(stores) < n {
		stores = append(stores, f.table.Store(f))
	}
	return stores
}

// race lets owners acquire the requests' keys all at once, each in one call and in an order of its own, on several
// handles. It returns their answers, in the order of reqs, and the owners.
func (f *fixture) race(stores []rmqdedup.Store, reqs []rmqdedup.Request) ([][]rmqdedup.Answer, []rmqdedup.Owner) {
	f.Helper()
	var (
		start   = make(chan struct{})
		wg      sync.WaitGroup
		owners  = make([]rmqdedup.Owner, claimants)
		answers = make([][]rmqdedup.Answer, claimants)
		errs    = make([]error, claimants)
	)
	for i := range claimants {
		owners[i] = rmqdedup.NewOwner()
		order := rand.Perm(len(reqs))
		mine := make([]rmqdedup.Request, len(reqs))
		for to, from := range order {
			mine[to] = by(owners[i], reqs[from])
		}
		wg.Go(func() {
			<-start
			got, err := stores[i%len(stores)].Acquire(f.ctx, mine)
			if errs[i] = err; err != nil || len(got) != len(mine) {
				return
			}
			answers[i] = make([]rmqdedup.Answer, len(reqs))
			for from, to := range order {
				answers[i][to] = got[from]
			}
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err != nil || answers[i] == nil {
			f.Fatalf("a claimant of %d: %d answers, error %v", claimants, len(answers[i]), err)
		}
		for _, a := range answers[i] {
			if problem := malformed(rmqdedup.OpAcquire, a); problem != "" {
				f.Fatalf("a claimant of %d: %s: %s", claimants, describe(a), problem)
			}
		}
	}
	return answers, owners
}

// raced checks that each key has one winner, that the table says so, and that all the others were told.
func (f *fixture) raced(reqs []rmqdedup.Request, won rmqdedup.Outcome, answers [][]rmqdedup.Answer, owners []rmqdedup.Owner) {
	f.Helper()
	for k, q := range reqs {
		var winners []rmqdedup.Owner
		for i := range answers {
			switch a := answers[i][k]; a.Outcome {
			case won:
				winners = append(winners, owners[i])
			case rmqdedup.InFlight:
			default:
				f.Errorf("%v: one of %d claimants: %s; want %v or in flight", q.Key, claimants, describe(a), won)
			}
		}
		if len(winners) != 1 {
			f.Errorf("%v: %d winners of %d claimants; want one", q.Key, len(winners), claimants)
			continue
		}
		for i := range answers {
			if r := answers[i][k].Record; answers[i][k].Outcome == rmqdedup.InFlight && r.Owner != winners[0] {
				f.Errorf("%v: a claimant was told that %v has it; want the winner, %v", q.Key, r.Owner, winners[0])
			}
		}
		if a := f.one(rmqdedup.OpLookup, q); a.Outcome != rmqdedup.InFlight || a.Record.Owner != winners[0] {
			f.Errorf("%v: then lookup: %s; want the winner, %v, in flight", q.Key, describe(a), winners[0])
		}
	}
}

// checkRace lets claimants race for a key that is absent, DONE past its retention, an orphan, or abandoned. Case 9.
func checkRace(f *fixture) {
	stores := f.handles(4)
	for _, keys := range []int{1, 8} { // with several, in orders that cross
		for _, s := range []*state{isAbsent, isOver, isOrphan, isAbandoned} {
			won := rmqdedup.Claimed
			if s.row.found == rmqdedup.Orphan {
				won = rmqdedup.TakenOver
			}
			for range 3 {
				var reqs []rmqdedup.Request
				for range keys {
					reqs = append(reqs, request(f.newKey(), rmqdedup.NewOwner()))
				}
				s.make(f, reqs)
				answers, owners := f.race(stores, reqs)
				f.raced(reqs, won, answers, owners)
				if f.Failed() {
					f.Fatalf("%d claimants of %d keys, from %s: see above", claimants, keys, s.name)
				}
			}
		}
	}
}

// checkNeighbours lets goroutines claim and finish keys of their own, side by side: what a lock on neighbouring rows
// would make a deadlock. None may fail, and none may go without a claim. Case 10.
func checkNeighbours(f *fixture) {
	stores := f.handles(4)
	const workers, rounds, batch = 50, 4, 8
	var reqs [workers][rounds][]rmqdedup.Request
	var all []rmqdedup.Request
	for w := range workers {
		for r := range rounds {
			for range batch {
				reqs[w][r] = append(reqs[w][r], request(f.newKey(), rmqdedup.NewOwner()))
			}
			all = append(all, reqs[w][r]...)
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			g := f.on(stores[w%len(stores)])
			for _, reqs := range reqs[w] {
				for _, step := range []struct {
					op   rmqdedup.Op
					want rmqdedup.Outcome
				}{{rmqdedup.OpAcquire, rmqdedup.Claimed}, {rmqdedup.OpRenew, rmqdedup.Applied}, {rmqdedup.OpComplete, rmqdedup.Applied}} {
					answers, err := rmqdedup.Do(g.ctx, g.store, step.op, reqs)
					if err != nil || slices.ContainsFunc(answers, func(a rmqdedup.Answer) bool { return a.Outcome != step.want }) {
						f.Errorf("%v beside %d others: %v, error %v; want %v", step.op, workers, answers, err, step.want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	f.want(rmqdedup.Done, rmqdedup.OpLookup, all...)
}
