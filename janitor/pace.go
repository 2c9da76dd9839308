package janitor

import (
	"slices"
	"time"
)

// The constants of the pace, all of them here, since they are tuned together.
const (
	// slow is how many times as long as on the quiet table a probe may take before the pace gives way. It is below the two times that
	// the p99 of claims is allowed, since a probe is one claim of many.
	slow = 1.5
	// quietFloor is the least that the quiet table is taken to need: a few microseconds more or less delay nobody's claim.
	quietFloor = 100 * time.Microsecond

	// A slow probe shrinks the batch to shrink times its size and stretches the pause to stretch times its length; a batch that took too long
	// for its time limit is halved.
	shrink  = 0.75
	stretch = 1.5
	// A probe that is not slow lets the batch grow by this part of the largest, and the pause shrink by this part of the shortest.
	growth = 20
	trim   = 2

	// The bounds that probes can bring it to: this part of the largest batch, and this many times the shortest pause. Beyond them a
	// table would no longer be emptied as fast as a busy group fills it.
	smallestPart = 4
	longestPause = 5
	// A new janitor begins at this part of the largest batch, and this many times the shortest pause.
	firstPart = 4

	// The pace goes by the median of so many probes beside batches: of claims on a quiet table, too, one in ten takes twice as long as most.
	beside = 3

	quietProbes = 5  // before the first batch; their median is what the quiet table needs
	quietEvery  = 16 // batches; then, after the pause, one of them is measured anew, since the load changes too
)

// A pace says how many rows the next batch has and how long the pause behind it is, from how long probes took beside the batches before:
// additive increase, multiplicative decrease, as in TCP. It knows no clock and no store.
//
// The batch decides how long a claim may have to wait, the pause how many of them do, so both give way together.
type pace struct {
	largest  int           // batch
	shortest time.Duration // pause

	batch int
	pause time.Duration

	quiet []time.Duration // how long the last few probes took on the quiet table
	busy  []time.Duration // and those beside batches
}

func newPace(largest int, shortest time.Duration) *pace {
	p := &pace{largest: largest, shortest: shortest, pause: firstPart * shortest}
	p.batch = p.part(firstPart)
	return p
}

// part is the n-th part of the largest batch, and at least one row.
func (p *pace) part(n int) int { return max(1, p.largest/n) }

// begin forgets what the quiet table needed, which was in another sweep. Batch and pause stay.
func (p *pace) begin() { p.quiet, p.busy = p.quiet[:0], p.busy[:0] }

// measured says whether it is known what the quiet table needs.
func (p *pace) measured() bool { return len(p.quiet) > 0 }

// quietened takes in how long a probe took while nothing of ours ran.
func (p *pace) quietened(took time.Duration) {
	p.quiet = last(quietProbes, p.quiet, took)
}

// last appends d to those that are kept, n of them.
func last(n int, kept []time.Duration, d time.Duration) []time.Duration {
	if len(kept) == n {
		kept = slices.Delete(kept, 0, 1)
	}
	return append(kept, d)
}

// idle is what the quiet table needs: the median, since one probe in a few meets somebody else's hiccup.
func (p *pace) idle() time.Duration {
	if !p.measured() {
		return 0
	}
	return median(p.quiet)
}

func median(of []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// felt takes in how long a probe took beside a batch.
func (p *pace) felt(took time.Duration) {
	p.busy = last(beside, p.busy, took)
	if float64(median(p.busy)) > slow*float64(max(p.idle(), quietFloor)) {
		p.giveWay()
		return
	}
	p.batch = min(p.batch+p.part(growth), p.largest)
	p.pause = max(p.pause-p.shortest/trim, p.shortest)
}

// giveWay makes the pace gentler, to its bounds.
func (p *pace) giveWay() {
	p.batch = min(p.batch, max(int(float64(p.batch)*shrink), p.part(smallestPart)))
	p.pause = min(time.Duration(float64(p.pause)*stretch), longestPause*p.shortest)
}

// timedOut halves the batch, to a single row if need be: a batch that cannot be done is worse than a slow sweep.
func (p *pace) timedOut() { p.batch = max(1, p.batch/2) }
