package janitor_test

import (
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
)

const idle = time.Millisecond

// quiet returns a pace that knows what the quiet table needs.
func quiet(largest int, shortest time.Duration) janitor.Pace {
	p := janitor.NewPace(largest, shortest)
	p.Quietened(idle)
	return p
}

func TestPaceBeginsGently(t *testing.T) {
	p := janitor.NewPace(200, 5*time.Millisecond)
	if p.Batch() != 50 || p.Pause() != 20*time.Millisecond {
		t.Errorf("batch %d, pause %v; want a quarter of the largest and four times the shortest", p.Batch(), p.Pause())
	}
	if p = janitor.NewPace(1, time.Millisecond); p.Batch() != 1 {
		t.Errorf("batch %d of 1 at most", p.Batch())
	}
}

// On a table that feels nothing it comes to its full speed, step by step, and goes no further.
func TestPaceSpeedsUpSlowly(t *testing.T) {
	p := quiet(200, 5*time.Millisecond)
	for step := range 100 {
		batch, pause := p.Batch(), p.Pause()
		p.Felt(idle)
		if grown, trimmed := p.Batch()-batch, pause-p.Pause(); grown < 0 || grown > 10 || trimmed < 0 || trimmed > 2500*time.Microsecond {
			t.Fatalf("step %d: from %d and %v to %d and %v", step, batch, pause, p.Batch(), p.Pause())
		}
		if step == 3 && p.Batch() == 200 {
			t.Error("at the largest batch after four probes")
		}
	}
	if p.Batch() != 200 || p.Pause() != 5*time.Millisecond {
		t.Errorf("batch %d, pause %v; want the largest and the shortest", p.Batch(), p.Pause())
	}
}

// Where claims are felt to be slower it gives way at once, by a share, to its bounds.
func TestPaceGivesWay(t *testing.T) {
	p := quiet(200, 5*time.Millisecond)
	for range 100 {
		p.Felt(idle)
	}
	p.Felt(idle * 16 / 10)
	if p.Batch() != 200 || p.Pause() != 5*time.Millisecond {
		t.Errorf("after one slow probe of three: batch %d, pause %v; want them as they were", p.Batch(), p.Pause())
	}
	p.Felt(idle * 16 / 10)
	if p.Batch() != 150 || p.Pause() != 7500*time.Microsecond {
		t.Errorf("after two: batch %d, pause %v; want 150 and 7.5ms", p.Batch(), p.Pause())
	}
	for range 100 {
		p.Felt(time.Second)
	}
	if p.Batch() != 200/janitor.Gentlest || p.Pause() != janitor.Longest*5*time.Millisecond {
		t.Errorf("after many: batch %d, pause %v; want its bounds", p.Batch(), p.Pause())
	}
}

func TestPaceLimitIsOneAndAHalf(t *testing.T) {
	for _, tt := range []struct {
		name       string
		idle, took time.Duration
		slow       bool
	}{
		{"as fast as idle", idle, idle, false},
		{"faster", idle, idle / 2, false},
		{"at the limit", idle, idle * 15 / 10, false},
		{"above it", idle, idle*15/10 + 1, true},
		{"microseconds", time.Microsecond, janitor.QuietFloor * 15 / 10, false},
		{"no time at all", 0, 0, false},
		{"above the floor", 0, janitor.QuietFloor*15/10 + 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := janitor.NewPace(200, 5*time.Millisecond)
			p.Quietened(tt.idle)
			before := p.Batch()
			if p.Felt(tt.took); (p.Batch() <= before) != tt.slow || (p.Pause() > 20*time.Millisecond) != tt.slow {
				t.Errorf("batch %d, before it %d, pause %v", p.Batch(), before, p.Pause())
			}
		})
	}
}

// What one probe in five meets says nothing of the quiet table, and what it was long ago says nothing of now.
func TestPaceTakesTheMedianOfTheLastProbes(t *testing.T) {
	p := janitor.NewPace(200, 5*time.Millisecond)
	if p.Measured() || p.Idle() != 0 {
		t.Error("measured without a probe")
	}
	for _, ms := range []int{2, 90, 1, 3, 80} {
		p.Quietened(time.Duration(ms) * time.Millisecond)
	}
	if p.Idle() != 3*idle {
		t.Errorf("idle is %v, want the median of 1, 2, 3, 80 and 90 ms", p.Idle())
	}
	for range janitor.QuietProbes {
		p.Quietened(7 * idle)
	}
	if p.Idle() != 7*idle {
		t.Errorf("idle is %v, want that of the last %d", p.Idle(), janitor.QuietProbes)
	}
	if p.Begin(); p.Measured() {
		t.Error("a new sweep begins with what an old one measured")
	}
}

// A batch that timed out is halved, down to one row, which probes never bring it to; and it grows back slowly.
func TestPaceHalvesAfterATimeout(t *testing.T) {
	p := quiet(200, 5*time.Millisecond)
	for _, want := range []int{25, 12, 6, 3, 1, 1} {
		if p.TimedOut(); p.Batch() != want {
			t.Fatalf("batch %d, want %d", p.Batch(), want)
		}
	}
	p.Felt(time.Second)
	if p.Batch() != 1 {
		t.Errorf("a slow probe makes a batch of one row one of %d", p.Batch())
	}
	probes := 0
	for ; p.Batch() < 200; probes++ {
		p.Felt(idle)
	}
	if probes != 21 { // the first is still weighed against the slow one
		t.Errorf("back at the largest batch after %d probes, want 21", probes)
	}
	small := janitor.NewPace(3, time.Millisecond) // a twentieth of three is one row as well
	small.TimedOut()
	small.Quietened(idle)
	for range 5 {
		small.Felt(idle)
	}
	if small.Batch() != 3 {
		t.Errorf("batch %d, want 3", small.Batch())
	}
}

// On a table whose claims wait for the batch in front of them, it settles where they wait half as long again, and not far below.
func TestPaceSettles(t *testing.T) {
	p := quiet(200, 5*time.Millisecond)
	const rows = 120 // at which a claim takes twice as long
	sum, slowest := 0, time.Duration(0)
	for step := range 2000 {
		took := idle + idle*time.Duration(p.Batch())/rows
		if step >= 1000 {
			sum += p.Batch()
			slowest = max(slowest, took)
		}
		p.Felt(took)
	}
	if mean := sum / 1000; mean < 45 || mean > 65 {
		t.Errorf("a batch of %d on average, want about 60, at which a probe takes half as long again", mean)
	}
	if slowest > idle*17/10 {
		t.Errorf("a probe took %v", slowest)
	}
	for range 100 {
		p.Felt(idle) // the load has gone
	}
	if p.Batch() != 200 {
		t.Errorf("a batch of %d when nobody is slowed down any more", p.Batch())
	}
}
