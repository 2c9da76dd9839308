package storagetest

import (
	"fmt"
	"slices"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A cell is one of the contract's table of operations: what an operation answers in a state, and what it leaves.
type cell struct {
	answer rmqdedup.Outcome
	left   row
}

// A line of that table: a state, who asks, and the operations in a fixed order.
type line struct {
	state *state
	asks  who
	cells [7]cell

	or rmqdedup.Outcome // what acquire may answer instead, and the claim's mark is then
}

// operations are in the order of a line's cells.
var operations = [7]rmqdedup.Op{
	rmqdedup.OpAcquire, rmqdedup.OpRenew, rmqdedup.OpComplete, rmqdedup.OpRelease, rmqdedup.OpAbandon, rmqdedup.OpLookup, rmqdedup.OpForget,
}

// table is the contract's, for the states in which nothing is left to the store.
func table() []line {
	const (
		fresh = rmqdedup.Claimed
		taken = rmqdedup.TakenOver
		done  = rmqdedup.Done
		lost  = rmqdedup.Lost
		ok    = rmqdedup.Applied
		busy  = rmqdedup.InFlight
		none  = rmqdedup.Absent
		left  = rmqdedup.Orphan
	)
	onNothing := func(s *state, w who) line {
		return line{state: s, asks: w, cells: [7]cell{
			{fresh, claimed(w, fresh)}, {lost, same}, {lost, completed(w)}, {lost, same}, {lost, same}, {none, same}, {none, same},
		}}
	}
	onOwn := func(s *state) line {
		mark := s.row.mark
		return line{state: s, asks: holder, cells: [7]cell{
			{mark, claimed(holder, mark)}, {ok, claimed(holder, mark)}, {ok, completed(holder)}, {ok, nothing}, {ok, orphan(nobody, mark)}, {busy, same}, {busy, same},
		}}
	}
	onAnothers := func(s *state) line {
		return line{state: s, asks: other, cells: [7]cell{
			{busy, same}, {lost, same}, {lost, completed(other)}, {lost, same}, {lost, same}, {busy, same}, {busy, same},
		}}
	}
	// An owner's own orphan stays one when it is abandoned, since its deadline has passed already. Acquired again by
	// its owner it may be told apart from a takeover, or not.
	onOwnOrphan := func(s *state) line {
		mark := s.row.mark
		return line{state: s, asks: holder, or: taken, cells: [7]cell{
			{mark, claimed(holder, mark)}, {ok, claimed(holder, mark)}, {ok, completed(holder)}, {ok, nothing}, {lost, same}, {left, same}, {ok, nothing},
		}}
	}
	onOrphan := func(s *state, w who) line {
		return line{state: s, asks: w, cells: [7]cell{
			{taken, claimed(w, taken)}, {lost, same}, {lost, completed(w)}, {lost, same}, {lost, same}, {left, same}, {ok, nothing},
		}}
	}
	onDone := func(s *state, w who) line {
		return line{state: s, asks: w, cells: [7]cell{
			{done, same}, {lost, same}, {done, same}, {lost, same}, {lost, same}, {done, same}, {ok, nothing},
		}}
	}
	return []line{
		onNothing(isAbsent, other),
		onNothing(isReleased, holder),
		onNothing(isReleased, other),
		onNothing(isOver, holder),
		onNothing(isOver, other),
		onOwn(isLive),
		onOwn(isLiveTakenOver),
		onAnothers(isLive),
		onAnothers(isLiveTakenOver),
		onOwnOrphan(isOrphan),
		onOwnOrphan(isOrphanTakenOver),
		onOrphan(isOrphan, other),
		onOrphan(isOrphanTakenOver, other),
		onOrphan(isAbandoned, holder),
		onOrphan(isAbandoned, other),
		onOrphan(isAbandonedTakenOver, holder),
		onOrphan(isAbandonedTakenOver, other),
		onDone(isDone, holder),
		onDone(isDone, other),
		onDone(isDoneUnclaimed, holder),
		onDone(isDoneUnclaimed, other),
	}
}

// subjects returns one key for each line of the table, for one operation.
func (f *fixture) subjects(op int) []*subject {
	var all []*subject
	for _, l := range table() {
		s := &subject{state: l.state, asks: l.asks, cell: l.cells[op]}
		if operations[op] == rmqdedup.OpAcquire {
			s.or = l.or
		}
		s.before = request(f.newKey(), rmqdedup.NewOwner())
		s.req = s.before
		if l.asks == other {
			s.req = stranger(s.before)
		}
		s.req.Lease, s.req.Grace, s.req.Retention = newLease, newGrace, newRetention
		all = append(all, s)
	}
	return all
}

// checkOperation tries one operation in every state, one key a call.
func checkOperation(index int) func(f *fixture) {
	return func(f *fixture) {
		op := operations[index]
		for _, s := range f.subjects(index) {
			f.prepare([]*subject{s})
			a := f.one(op, s.req)
			if problem := s.checkAnswer(f, op, a); problem != "" {
				f.Errorf("%v %v: %s", op, s, problem)
				continue
			}
			f.verify(op, []*subject{s})
		}
	}
}

// checkManyKeys sends each operation with many keys at once, in all states and in an order that is no order of theirs.
func checkManyKeys(f *fixture) {
	random := f.random()
	for _, n := range []int{2, 64, 1000} {
		for index, op := range operations {
			var subjects []*subject
			for len(subjects) < n {
				subjects = append(subjects, f.subjects(index)...)
			}
			random.Shuffle(len(subjects), func(i, j int) { subjects[i], subjects[j] = subjects[j], subjects[i] })
			subjects = subjects[:n]
			f.prepare(subjects)

			var reqs []rmqdedup.Request
			for _, s := range subjects {
				reqs = append(reqs, s.req)
			}
			wrong := 0
			for i, a := range f.do(op, reqs...) {
				if problem := subjects[i].checkAnswer(f, op, a); problem != "" {
					f.Errorf("%d of %d keys: %v %v: %s", i, n, op, subjects[i], problem)
					wrong++
				}
			}
			if wrong == 0 {
				f.verify(op, subjects)
			}
			if f.Failed() {
				f.Fatalf("%v of %d keys at once: see above", op, n)
			}
		}
	}
}

// checkEmptyCalls sends each operation with no key.
func checkEmptyCalls(f *fixture) {
	for _, op := range operations {
		for _, none := range [][]rmqdedup.Request{nil, {}} {
			if answers, err := rmqdedup.Do(f.ctx, f.store, op, none); err != nil || len(answers) != 0 {
				f.Errorf("%v of no key: %d answers, error %v; want neither", op, len(answers), err)
			}
		}
	}
}

// checkPastGrace tries each operation on a claim past its deadline and its grace. The store may take it for an orphan
// or for absent, but its answer and what it leaves must go together.
func checkPastGrace(f *fixture) {
	const (
		ok, lost   = rmqdedup.Applied, rmqdedup.Lost
		none, left = rmqdedup.Absent, rmqdedup.Orphan
		busy, done = rmqdedup.InFlight, rmqdedup.Done
	)
	type may = map[rmqdedup.Outcome][]rmqdedup.Outcome // for each answer that may be given, what Lookup may find then
	claims := may{rmqdedup.Claimed: {busy}, rmqdedup.TakenOver: {busy}}
	allowed := []struct {
		op          rmqdedup.Op
		own, others may
	}{
		{rmqdedup.OpAcquire, claims, claims},
		{rmqdedup.OpRenew, may{ok: {busy}, lost: {none, left}}, may{lost: {none, left}}},
		{rmqdedup.OpComplete, may{ok: {done}, lost: {done}}, may{lost: {done}}},
		{rmqdedup.OpRelease, may{ok: {none}, lost: {none, left}}, may{lost: {none, left}}},
		{rmqdedup.OpAbandon, may{lost: {none, left}}, may{lost: {none, left}}},
		{rmqdedup.OpLookup, may{none: {none}, left: {none, left}}, may{none: {none}, left: {none, left}}},
		{rmqdedup.OpForget, may{none: {none}, ok: {none}}, may{none: {none}, ok: {none}}},
	}
	for _, granted := range []rmqdedup.Request{{Grace: grace}, {Grace: 0}} {
		for _, a := range allowed {
			for asks, may := range map[who]may{holder: a.own, other: a.others} {
				q := request(f.newKey(), rmqdedup.NewOwner())
				q.Grace = granted.Grace
				f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, q)
				f.age(lease+granted.Grace+slack, q)
				if asks == other {
					q = stranger(q)
				}
				what := fmt.Sprintf("%v by %v, past a grace of %v", a.op, asks, granted.Grace)
				answer := f.one(a.op, q)
				then, ok := may[answer.Outcome]
				if !ok {
					f.Errorf("%s: %s", what, describe(answer))
					continue
				}
				f.oneOf(what+", then lookup", f.one(rmqdedup.OpLookup, q), then...)
				if a.op == rmqdedup.OpAcquire {
					f.oneOf(what+", then acquired again", f.one(rmqdedup.OpAcquire, q), answer.Outcome)
				}
			}
		}
	}
}

// oneOf reports an outcome that is none of those wanted.
func (f *fixture) oneOf(what string, a rmqdedup.Answer, want ...rmqdedup.Outcome) {
	f.Helper()
	if !slices.Contains(want, a.Outcome) {
		f.Errorf("%s: %s; want %v", what, describe(a), want)
	}
}
