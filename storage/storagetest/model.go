package storagetest

import (
	"fmt"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The model of one key, against which histories are checked: the contract's table of operations, with time that stands
// still but for Age. It is written apart from the table in operations.go, and apart from any store.

// A modelKind is the state of a key.
type modelKind uint8

const (
	modelAbsent modelKind = iota
	modelClaim
	modelDone
)

// A modelState is a value, so that histories' states can be compared. Owners are numbers: 0 and up are those of the
// history, free is the fresh one of an abandoned claim.
type modelState struct {
	kind  modelKind
	owner int
	mark  mark          // of a claim
	left  time.Duration // until the deadline, or the end of retention; not above zero once that has passed
}

const free = -1

// A mark says whether a claim is a takeover.
type mark uint8

const (
	fresh mark = iota
	taken
	either // its owner's acquire failed on its own orphan, which may count as a takeover: see the table
)

// The times of histories. A claim's grace is not in the model: it is longer than all ages together.
const (
	historyLease     = time.Hour
	historyRetention = 10 * time.Hour
	historyGrace     = 100_000 * time.Hour

	ageClaim = 90 * time.Minute // expires a claim
	ageDone  = 11 * time.Hour   // ends a retention
)

// A modelInput is one operation on one key: of a store, or Age, or Clear.
type modelInput struct {
	key   int
	op    rmqdedup.Op // zero for Age and Clear
	age   time.Duration
	clear bool
	owner int
}

// A modelOutput is what was answered. An operation that failed has none.
type modelOutput struct {
	known   bool
	outcome rmqdedup.Outcome
	owner   int // the record's, where there was one, or noRecord
	cleared bool
}

const noRecord = -2

// step applies an operation, and says whether the answer is one that the state allows.
func (s modelState) step(in modelInput, out modelOutput) (bool, modelState) {
	if in.age > 0 {
		return true, s.aged(in.age)
	}
	if in.clear {
		return s.cleared(in, out)
	}
	outcome, record, next := s.apply(in.op, in.owner)
	own := in.op == rmqdedup.OpAcquire && s.kind == modelClaim && s.owner == in.owner
	if own && (s.mark == either || s.mark == fresh && s.left <= 0) {
		next.mark = either
		switch out.outcome {
		case rmqdedup.Claimed:
			outcome, next.mark = rmqdedup.Claimed, fresh
		case rmqdedup.TakenOver:
			outcome, next.mark = rmqdedup.TakenOver, taken
		}
	}
	if !out.known {
		return true, next
	}
	return out.outcome == outcome && (out.owner == noRecord || own || out.owner == record), next
}

// apply returns the outcome of a store's operation, the owner of the record that it found, and the state that it
// leaves.
func (s modelState) apply(op rmqdedup.Op, owner int) (outcome rmqdedup.Outcome, record int, next modelState) {
	own := s.kind == modelClaim && s.owner == owner
	live := s.kind == modelClaim && s.left > 0
	claim := modelState{kind: modelClaim, owner: owner, left: historyLease}
	switch op {
	case rmqdedup.OpAcquire:
		switch {
		case s.kind == modelAbsent:
			return rmqdedup.Claimed, noRecord, claim
		case s.kind == modelDone:
			return rmqdedup.Done, s.owner, s
		case own && s.mark == fresh:
			return rmqdedup.Claimed, noRecord, claim
		case live && !own:
			return rmqdedup.InFlight, s.owner, s
		}
		claim.mark = taken
		return rmqdedup.TakenOver, s.owner, claim
	case rmqdedup.OpRenew:
		if own {
			s.left = historyLease
			return rmqdedup.Applied, noRecord, s
		}
	case rmqdedup.OpComplete:
		done := modelState{kind: modelDone, owner: owner, left: historyRetention}
		switch {
		case s.kind == modelDone:
			return rmqdedup.Done, s.owner, s
		case own:
			return rmqdedup.Applied, noRecord, done
		}
		return rmqdedup.Lost, noRecord, done
	case rmqdedup.OpRelease:
		if own {
			return rmqdedup.Applied, noRecord, modelState{}
		}
	case rmqdedup.OpAbandon:
		if own && live {
			s.owner, s.left = free, 0
			return rmqdedup.Applied, noRecord, s
		}
	case rmqdedup.OpLookup:
		switch {
		case s.kind == modelAbsent:
			return rmqdedup.Absent, noRecord, s
		case s.kind == modelDone:
			return rmqdedup.Done, s.owner, s
		case live:
			return rmqdedup.InFlight, s.owner, s
		}
		return rmqdedup.Orphan, s.owner, s
	case rmqdedup.OpForget:
		switch {
		case s.kind == modelAbsent:
			return rmqdedup.Absent, noRecord, s
		case live:
			return rmqdedup.InFlight, s.owner, s
		}
		return rmqdedup.Applied, noRecord, modelState{}
	}
	return rmqdedup.Lost, noRecord, s
}

func (s modelState) aged(by time.Duration) modelState {
	switch s.kind {
	case modelClaim:
		s.left = max(s.left-by, 0) // how long ago makes no difference
	case modelDone:
		if s.left -= by; s.left <= 0 {
			return modelState{}
		}
	}
	return s
}

// cleared applies a Clear of a record that was read before. The model does not know deadlines apart, so that it takes a
// refusal for right.
func (s modelState) cleared(in modelInput, out modelOutput) (bool, modelState) {
	if !out.known || !out.cleared {
		return true, s
	}
	// The fresh owner of one abandoned claim is not that of the next, which the model cannot tell apart either.
	return s.kind == modelClaim && s.owner == in.owner && s.left <= 0, modelState{}
}

func (in modelInput) String() string {
	who := fmt.Sprintf(" by %d", in.owner)
	if in.owner == free {
		who = " of nobody"
	}
	switch {
	case in.age > 0:
		return fmt.Sprintf("key %d: age %v", in.key, in.age)
	case in.clear:
		return fmt.Sprintf("key %d: clear%s", in.key, who)
	case in.op == rmqdedup.OpLookup || in.op == rmqdedup.OpForget:
		who = ""
	}
	return fmt.Sprintf("key %d: %v%s", in.key, in.op, who)
}

func (out modelOutput) String() string {
	switch {
	case !out.known:
		return "failed"
	case out.outcome == 0:
		return fmt.Sprint(out.cleared)
	case out.owner == noRecord:
		return out.outcome.String()
	case out.owner == free:
		return fmt.Sprintf("%v, nobody's", out.outcome)
	}
	return fmt.Sprintf("%v, %d's", out.outcome, out.owner)
}

func (s modelState) String() string {
	switch s.kind {
	case modelClaim:
		return fmt.Sprintf("%s of %d, %v left", [...]string{"claim", "takeover", "claim or takeover"}[s.mark], s.owner, s.left)
	case modelDone:
		return fmt.Sprintf("DONE by %d, %v left", s.owner, s.left)
	}
	return "absent"
}
