package main

import (
	"math"
	"slices"
)

// confidence is that of every interval of the table.
const confidence = 0.95

// An estimate is the median of what was measured, and an interval that holds the true median with the confidence that it states.
// It supposes nothing about how the values are distributed.
type estimate struct {
	median, low, high float64
	rounds            int
	confidence        float64
}

// sure says that the interval has the confidence of the table, for which fewer than 6 rounds are too few.
func (e estimate) sure() bool { return e.confidence >= confidence }

// estimateOf needs at least one value.
func estimateOf(values []float64) estimate {
	sorted := slices.Sorted(slices.Values(values))
	rank, c := rankOf(len(sorted))
	return estimate{
		median: medianOfSorted(sorted), low: sorted[rank-1], high: sorted[len(sorted)-rank],
		rounds: len(sorted), confidence: c,
	}
}

func median(values []float64) float64 { return medianOfSorted(slices.Sorted(slices.Values(values))) }

func medianOfSorted(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// rankOf returns the largest k for which the k-th smallest and the k-th largest of n values enclose the median with at least the confidence
// of the table, and the confidence with which they do; k is 1 where there are too few values for that.
//
// Each value lies below the median with probability 1/2, so the number of those below it is binomial. The median is outside of the interval
// if fewer than k values lie on one side of it.
func rankOf(n int) (rank int, c float64) {
	outside := func(k int) float64 { return 2 * binomialBelow(n, k) }
	rank = 1
	for 2*(rank+1) <= n && outside(rank+1) <= 1-confidence {
		rank++
	}
	return rank, max(0, 1-outside(rank))
}

// binomialBelow is the probability that fewer than k of n tosses of a coin are heads.
func binomialBelow(n, k int) (p float64) {
	term := math.Pow(0.5, float64(n))
	for i := range k {
		p += term
		term *= float64(n-i) / float64(i+1)
	}
	return p
}

// percentile returns the smallest value that at least that share of them does not exceed. It sorts them.
func percentile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(share*float64(len(values))))-1)]
}
