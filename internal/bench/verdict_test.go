package main

import "testing"

func TestVerdicts(t *testing.T) {
	between := func(low, high float64) estimate {
		return estimate{low: low, median: (low + high) / 2, high: high, confidence: 0.96}
	}
	for _, c := range []struct {
		name string
		rule rule
		estimate
		want verdict
	}{
		{"at least, all above", atLeast(1.3), between(1.31, 1.5), pass},
		{"at least, reached exactly", atLeast(1.3), between(1.3, 1.5), pass},
		{"at least, the lower bound is below", atLeast(1.3), between(1.29, 1.5), fail},
		{"at least, all below", atLeast(1.3), between(1, 1.1), fail},
		{"never below, all above", neverBelow(1), between(1.1, 1.2), pass},
		{"never below, about the same", neverBelow(1), between(0.9, 1.05), pass},
		{"never below, all below", neverBelow(1), between(0.9, 0.99), fail},
		{"not above, all below", notSurelyAbove(20), between(10, 19), pass},
		{"not above, about the same", notSurelyAbove(20), between(19, 25), pass},
		{"not above, all above", notSurelyAbove(20), between(20.1, 25), fail},
		{"only reported", reported(), between(0, 0), noVerdict},
	} {
		if got := c.rule.judge(c.estimate); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Too few rounds give no verdict, for or against.
func TestTooFewRoundsGiveNoVerdict(t *testing.T) {
	for _, values := range [][]float64{{2, 2, 2}, {0.1, 0.1, 0.1, 0.1, 0.1}} {
		if got := atLeast(1).judge(estimateOf(values)); got != tooFew {
			t.Errorf("%v: %q", values, got)
		}
	}
	if got := reported().judge(estimateOf([]float64{1})); got != noVerdict {
		t.Errorf("a row that is only reported: %q", got)
	}
}
