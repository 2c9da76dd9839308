package main

import "fmt"

// A rule says when a row fails. None is about a bare time: what it judges was compared in the same run.
type rule struct {
	kind   ruleKind
	target float64
}

type ruleKind int

const (
	// reportOnly: the row never fails.
	reportOnly ruleKind = iota
	// lowAtLeast: it fails if the interval's lower bound is below the target, that is unless the run shows that the target is reached.
	lowAtLeast
	// highAtLeast: it fails if the interval's upper bound is below the target, that is if the run shows that the target is missed.
	highAtLeast
	// lowAtMost: it fails if the interval's lower bound is above the target, that is if the run shows that the target is exceeded.
	lowAtMost
)

func reported() rule                     { return rule{} }
func atLeast(target float64) rule        { return rule{lowAtLeast, target} }
func neverBelow(target float64) rule     { return rule{highAtLeast, target} }
func notSurelyAbove(target float64) rule { return rule{lowAtMost, target} }

// String is what stands in the table.
func (r rule) String() string {
	switch r.kind {
	case lowAtLeast:
		return fmt.Sprintf("low >= %.4g", r.target)
	case highAtLeast:
		return fmt.Sprintf("high >= %.4g", r.target)
	case lowAtMost:
		return fmt.Sprintf("low <= %.4g", r.target)
	case reportOnly:
	}
	return "-"
}

// A verdict is what a rule says of an estimate.
type verdict string

const (
	noVerdict verdict = "-" // the row is only reported
	pass      verdict = "ok"
	fail      verdict = "FAIL"
	tooFew    verdict = "too few rounds"
)

func (r rule) judge(e estimate) verdict {
	failed := false
	switch r.kind {
	case reportOnly:
		return noVerdict
	case lowAtLeast:
		failed = e.low < r.target
	case highAtLeast:
		failed = e.high < r.target
	case lowAtMost:
		failed = e.low > r.target
	}
	switch {
	case !e.sure():
		return tooFew
	case failed:
		return fail
	}
	return pass
}
