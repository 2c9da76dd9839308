package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTheIntervalsRank(t *testing.T) {
	// From the table of the sign test.
	for _, c := range []struct {
		values, rank int
		confidence   float64
		sure         bool
	}{
		{1, 1, 0, false},
		{2, 1, 0.5, false},
		{3, 1, 0.75, false},
		{5, 1, 0.9375, false},
		{6, 1, 0.96875, true},
		{8, 1, 0.9921875, true},
		{9, 2, 0.9609375, true},
		{10, 2, 0.978515625, true},
		{12, 3, 0.96142578125, true},
		{20, 6, 0.9586105, true},
		{40, 14, 0.9615227, true},
	} {
		rank, confidence := rankOf(c.values)
		if rank != c.rank || math.Abs(confidence-c.confidence) > 1e-6 {
			t.Errorf("of %d values: rank %d with %v, want %d with %v", c.values, rank, confidence, c.rank, c.confidence)
		}
		if sure := (estimate{confidence: confidence}).sure(); sure != c.sure {
			t.Errorf("of %d values: sure is %v", c.values, sure)
		}
	}
}

func TestAnEstimateIsMadeOfOrderStatistics(t *testing.T) {
	values := []float64{7, 1, 10, 3, 5, 9, 2, 8, 4, 6}
	e := estimateOf(values)
	if e.median != 5.5 || e.low != 2 || e.high != 9 || e.rounds != 10 {
		t.Errorf("of 1 to 10: %+v, want 5.5 between 2 and 9", e)
	}
	if values[0] != 7 {
		t.Error("the values have been sorted, and they are the caller's")
	}
	if e := estimateOf([]float64{3}); e.median != 3 || e.low != 3 || e.high != 3 {
		t.Errorf("of one value: %+v", e)
	}
}

// The interval has to hold the true median as often as it says, of whatever distribution: here of a lopsided one.
func TestTheIntervalHoldsTheMedianAsOftenAsItSays(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 10, 15, 20} {
		const trials = 4000
		held := 0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				values[i] = random.ExpFloat64()
			}
			if e := estimateOf(values); e.low <= math.Ln2 && math.Ln2 <= e.high {
				held++
			}
		}
		_, want := rankOf(n)
		got := float64(held) / trials
		if tolerance := 4 * math.Sqrt(want*(1-want)/trials); math.Abs(got-want) > tolerance {
			t.Errorf("of %d values: held in %v of all trials, want %v", n, got, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	values := make([]float64, 200)
	for i := range values {
		values[i] = float64(200 - i)
	}
	for share, want := range map[float64]float64{0.5: 100, 0.99: 198, 1: 200, 0.001: 1} {
		if got := percentile(values, share); got != want {
			t.Errorf("percentile %v of 1 to 200 is %v, want %v", share, got, want)
		}
	}
	if got := percentile(nil, 0.99); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("of 1, 2, 3: %v", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("of 1 to 4: %v", got)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}
