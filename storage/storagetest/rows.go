package storagetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A who is an owner as a test sees it.
type who uint8

const (
	holder who = iota // who claimed the key in the test's setup
	other             // who came for it afterwards
	nobody            // the fresh owner of a claim that its holder abandoned
)

func (w who) String() string { return [...]string{"its holder", "another", "nobody"}[w] }

// A row is what the table should hold for one key. The zero row says that nothing has changed.
type row struct {
	found rmqdedup.Outcome // what Lookup says
	of    who              // whose record it is

	lease, grace time.Duration    // of a claim, since its last acquire or renew
	mark         rmqdedup.Outcome // of a claim: what its owner is told when it acquires again
	retention    time.Duration    // of DONE
}

var (
	same    = row{}
	nothing = row{found: rmqdedup.Absent}
)

// Rows as a setup makes them.
func live(mark rmqdedup.Outcome) row {
	return row{found: rmqdedup.InFlight, of: holder, lease: lease, grace: grace, mark: mark}
}

func orphan(of who, mark rmqdedup.Outcome) row {
	return row{found: rmqdedup.Orphan, of: of, grace: grace, mark: mark}
}

func finished() row { return row{found: rmqdedup.Done, of: holder, retention: retention} }

// Rows as the operation under test makes them.
func claimed(of who, mark rmqdedup.Outcome) row {
	return row{found: rmqdedup.InFlight, of: of, lease: newLease, grace: newGrace, mark: mark}
}

func completed(of who) row { return row{found: rmqdedup.Done, of: of, retention: newRetention} }

// A state is one that a key can be in, and how it comes into it.
type state struct {
	name string
	row  row
	// make brings the key of each request, which are their holders', into the state, from nothing.
	make func(f *fixture, reqs []rmqdedup.Request)
}

func acquired(f *fixture, reqs []rmqdedup.Request) {
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)
}

func tookOver(f *fixture, reqs []rmqdedup.Request) {
	var predecessors []rmqdedup.Request
	for _, q := range reqs {
		predecessors = append(predecessors, stranger(q))
	}
	acquired(f, predecessors)
	f.age(lease+slack, reqs...)
	f.want(rmqdedup.TakenOver, rmqdedup.OpAcquire, reqs...)
}

// after returns a setup that goes on from another one.
func after(first, then func(f *fixture, reqs []rmqdedup.Request)) func(f *fixture, reqs []rmqdedup.Request) {
	return func(f *fixture, reqs []rmqdedup.Request) {
		first(f, reqs)
		then(f, reqs)
	}
}

func wanting(outcome rmqdedup.Outcome, op rmqdedup.Op) func(f *fixture, reqs []rmqdedup.Request) {
	return func(f *fixture, reqs []rmqdedup.Request) { f.want(outcome, op, reqs...) }
}

func aging(d time.Duration) func(f *fixture, reqs []rmqdedup.Request) {
	return func(f *fixture, reqs []rmqdedup.Request) { f.age(d, reqs...) }
}

// The states whose answers are certain. Those of a claim past its grace are not, see checkPastGrace.
var (
	isAbsent = &state{"absent", nothing, func(*fixture, []rmqdedup.Request) {}}

	isReleased = &state{"released", nothing, after(acquired, wanting(rmqdedup.Applied, rmqdedup.OpRelease))}

	isOver = &state{"DONE past its retention", nothing, after(isDone.make, aging(retention+slack))}

	isLive = &state{"a claim", live(rmqdedup.Claimed), acquired}

	isLiveTakenOver = &state{"a claim taken over", live(rmqdedup.TakenOver), tookOver}

	isOrphan = &state{"an orphan", orphan(holder, rmqdedup.Claimed), after(acquired, aging(lease+slack))}

	isOrphanTakenOver = &state{"an orphan taken over before", orphan(holder, rmqdedup.TakenOver), after(tookOver, aging(lease+slack))}

	isAbandoned = &state{"an abandoned claim", orphan(nobody, rmqdedup.Claimed), after(acquired, wanting(rmqdedup.Applied, rmqdedup.OpAbandon))}

	isAbandonedTakenOver = &state{"an abandoned takeover", orphan(nobody, rmqdedup.TakenOver), after(tookOver, wanting(rmqdedup.Applied, rmqdedup.OpAbandon))}

	isDone = &state{"DONE", finished(), after(acquired, wanting(rmqdedup.Applied, rmqdedup.OpComplete))}

	isDoneUnclaimed = &state{"DONE without a claim", finished(), wanting(rmqdedup.Lost, rmqdedup.OpComplete)}
)

// A subject is one key under test: its state, the operation and who asks for it, and what should come of it.
type subject struct {
	state  *state
	cell   cell
	asks   who
	or     rmqdedup.Outcome // see line
	before rmqdedup.Request // the holder's, as the setup sends it
	req    rmqdedup.Request // the operation's
}

func (s *subject) String() string {
	return fmt.Sprintf("on %s, by %v (%v)", s.state.name, s.asks, s.req.Key)
}

// own says whether the operation is asked for by the owner of the claim that it finds.
func (s *subject) own() bool { return s.asks == holder && s.state.row.of == holder }

// row returns what should be left.
func (s *subject) row() row {
	if s.cell.left == same {
		return s.state.row
	}
	return s.cell.left
}

// checkAnswer says what is wrong with the answer to the operation.
func (s *subject) checkAnswer(f *fixture, op rmqdedup.Op, a rmqdedup.Answer) string {
	switch {
	case a.Outcome == s.or && a.Err == nil:
		s.cell.left.mark = s.or
	case a.Outcome != s.cell.answer || a.Err != nil:
		return fmt.Sprintf("%s; want %v", describe(a), s.cell.answer)
	}
	switch a.Outcome {
	case rmqdedup.TakenOver:
		if s.own() {
			return "" // it may be told of its own record, or of none: the one that it took over is gone
		}
		if a.Record == nil {
			return describe(a) + ": the record that was taken over is missing"
		}
	case rmqdedup.InFlight, rmqdedup.Orphan, rmqdedup.Done:
	default:
		return "" // no record is due
	}
	return s.checkRecord(f, a, s.state.row, op != rmqdedup.OpLookup)
}

// checkRow says what is wrong with what Lookup found.
func (s *subject) checkRow(f *fixture, a rmqdedup.Answer) string {
	if a.Outcome != s.row().found {
		return fmt.Sprintf("left is: %s; want %v", describe(a), s.row().found)
	}
	if problem := s.checkRecord(f, a, s.row(), false); problem != "" {
		return "left is: " + problem
	}
	return ""
}

// checkRecord says in what an answer's record, and the time left, differ from the row.
func (s *subject) checkRecord(f *fixture, a rmqdedup.Answer, want row, keyMayBeMissing bool) string {
	r := a.Record
	if r == nil {
		return ""
	}
	if a.Outcome == rmqdedup.InFlight && (a.Left > want.lease+f.resolution || a.Left < want.lease-slack) {
		return fmt.Sprintf("%v is left, of a lease of %v", a.Left, want.lease)
	}
	author := s.before
	if want.of == other {
		author = s.req
	}
	switch {
	case want.of == nobody && (r.Owner == s.before.Owner || r.Owner == s.req.Owner || r.Owner.IsZero()):
		return fmt.Sprintf("its owner is %v; want a fresh one, after an abandon", r.Owner)
	case want.of != nobody && r.Owner != author.Owner:
		return fmt.Sprintf("its owner is %v; want %v, %v's", r.Owner, author.Owner, want.of)
	case r.MessageID != author.MessageID || r.Attempt != author.Attempt || r.Fingerprint != author.Fingerprint:
		return fmt.Sprintf("its message is %q, attempt %d, fingerprint %x; want %q, %d, %x",
			r.MessageID, r.Attempt, r.Fingerprint, author.MessageID, author.Attempt, author.Fingerprint)
	case !r.Done && r.Grace != want.grace:
		return fmt.Sprintf("its grace is %v; want %v", r.Grace, want.grace)
	case r.Done && !r.DoneAt.IsZero() && !r.Until.IsZero() && (r.Until.Sub(r.DoneAt)-want.retention).Abs() > slack:
		return fmt.Sprintf("it is DONE from %v until %v; want a retention of %v", r.DoneAt, r.Until, want.retention)
	}
	if keyMayBeMissing && r.Key == (rmqdedup.Key{}) {
		return ""
	}
	return f.checkKey(r.Key, s.req.Key)
}

// checkKey says in what a record's key differs from the one that was given.
func (f *fixture) checkKey(got, given rmqdedup.Key) string {
	want := given.Readable()
	if got == want {
		return ""
	}
	if got.Digest() != want.Digest() {
		return fmt.Sprintf("its key has the digest %x; want %x", got.Digest(), want.Digest())
	}
	if f.KeepsParts {
		return fmt.Sprintf("its key's parts are %+q; want %+q", parts(got), parts(want))
	}
	for i, part := range parts(got) {
		if part != "" && part != parts(want)[i] {
			return fmt.Sprintf("a part of its key is %+q; want %+q, or nothing", part, parts(want)[i])
		}
	}
	return ""
}

func parts(k rmqdedup.Key) []string { return []string{k.Group, k.Topic, k.Tag, k.Value} }

// verify compares the table with what should be left of each subject: at first by looking, then by what a stranger is
// told who tries to acquire, and what the owner is told. It reads one answer for all, and changes the table.
func (f *fixture) verify(op rmqdedup.Op, subjects []*subject) {
	f.Helper()
	var probes []rmqdedup.Request
	for _, s := range subjects {
		probes = append(probes, stranger(s.req))
	}
	wrong := func(s *subject, problem string) bool {
		f.Helper()
		if problem != "" {
			f.Errorf("%v %v: %s", op, s, problem)
		}
		return problem != ""
	}

	var owners []rmqdedup.Request
	var owned []*subject
	looked, asked := f.do(rmqdedup.OpLookup, probes...), f.do(rmqdedup.OpAcquire, probes...)
	for i, s := range subjects {
		if wrong(s, s.checkRow(f, looked[i])) {
			continue
		}
		if answer := asked[i].Outcome; answer != toStranger[s.row().found] {
			wrong(s, fmt.Sprintf("a stranger who acquires then is told: %s; want %v", describe(asked[i]), toStranger[s.row().found]))
			continue
		}
		if wrong(s, s.checkRecord(f, asked[i], s.row(), true)) {
			continue
		}
		if s.row().found == rmqdedup.InFlight {
			again := s.before
			if s.row().of == other {
				again = s.req
			}
			owners, owned = append(owners, again), append(owned, s)
		}
	}
	for i, a := range f.do(rmqdedup.OpAcquire, owners...) {
		if want := owned[i].row().mark; a.Outcome != want {
			wrong(owned[i], fmt.Sprintf("the owner who acquires again is told: %s; want %v", describe(a), want))
		}
	}
}

// toStranger is what a new owner is told by Acquire, by what Lookup says before.
var toStranger = map[rmqdedup.Outcome]rmqdedup.Outcome{
	rmqdedup.Absent:   rmqdedup.Claimed,
	rmqdedup.InFlight: rmqdedup.InFlight,
	rmqdedup.Orphan:   rmqdedup.TakenOver,
	rmqdedup.Done:     rmqdedup.Done,
}

// prepare brings each subject's key into its state, with as few calls as there are steps.
func (f *fixture) prepare(subjects []*subject) {
	f.Helper()
	byState := make(map[*state][]rmqdedup.Request)
	var states []*state
	for _, s := range subjects {
		if !slices.Contains(states, s.state) {
			states = append(states, s.state)
		}
		byState[s.state] = append(byState[s.state], s.before)
	}
	for _, st := range states {
		st.make(f, byState[st])
	}
}
