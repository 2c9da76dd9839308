package main

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// deliver hands the messages from first to end-1 to the tally, one a call.
func deliver(t *testing.T, to *tally, first, end int) {
	t.Helper()
	for i := first; i < end; i++ {
		m := &primitive.MessageExt{}
		m.WithKeys([]string{keyOf(i)})
		if _, err := to.handle(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestATallyMeasuresWholeStrides(t *testing.T) {
	to := newTally(&order{Handlers: 4, Batch: 1, Messages: 100, Count: 8, Most: time.Hour})
	deliver(t, to, 0, 11)
	if closed(to.done) {
		t.Error("it was done after 11 messages: 4 to begin with, and 8 that are measured")
	}
	deliver(t, to, 11, 13)
	if !closed(to.done) || to.failure() != nil {
		t.Fatalf("it was not done after 13, or has failed")
	}
	if c := to.consumption(); c.Runs != 8 || c.Elapsed <= 0 {
		t.Errorf("%d messages in %v", c.Runs, c.Elapsed)
	}
}

func TestATallyWaitsForItsLead(t *testing.T) {
	to := newTally(&order{Handlers: 1, Batch: 1, Messages: 20, Count: 5, Lead: time.Hour, Most: time.Hour})
	deliver(t, to, 0, 20)
	if err := to.failure(); closed(to.done) || err == nil || !strings.Contains(err.Error(), "all 20 messages") {
		t.Errorf("done, or the wrong failure: %v", err)
	}
}

func TestATallyEndsInTime(t *testing.T) {
	to := newTally(&order{Handlers: 2, Batch: 1, Messages: 20, Count: 16})
	deliver(t, to, 0, 4)
	if c := to.consumption(); !closed(to.done) || c.Runs <= 0 {
		t.Errorf("not done at the first stride behind its time: %d messages", c.Runs)
	}
}

func TestATallyEndsWithTheLastMessage(t *testing.T) {
	to := newTally(&order{Handlers: 2, Batch: 1, Messages: 7, Count: 16, Most: time.Hour})
	deliver(t, to, 0, 7)
	if c := to.consumption(); !closed(to.done) || c.Runs != 5 {
		t.Errorf("%d messages, want 5 of 7", c.Runs)
	}
}

func TestATallySeesWhatIsWrong(t *testing.T) {
	for name, numbers := range map[string][]int{"twice": {3, 3}, "not sent": {10}} {
		to := newTally(&order{Handlers: 1, Batch: 1, Messages: 10, Count: 5, Most: time.Hour})
		for _, i := range numbers {
			deliver(t, to, i, i+1)
		}
		if err := to.failure(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATallyIsReadyAfterItsProbes(t *testing.T) {
	to := newTally(&order{Handlers: 1, Batch: 1, Messages: 10, Probes: 3})
	deliver(t, to, 0, 2)
	if closed(to.ready) {
		t.Error("ready too early")
	}
	deliver(t, to, 2, 10)
	if !closed(to.ready) || closed(to.done) {
		t.Error("not ready, or done, which it never is")
	}
}

func TestGrowth(t *testing.T) {
	begin := time.Unix(1000, 0)
	// A thousand a second are sent, and consumed runs at its own rate with a backlog of 10 to begin with.
	course := func(perSecond, offset int) (all []sample) {
		for i := range 300 {
			all = append(all, sample{begin.Add(time.Duration(i) * 10 * time.Millisecond), offset + i*perSecond/100})
		}
		return all
	}
	for _, c := range []struct {
		perSecond int
		want      float64
	}{{1000, 1}, {900, 0.9}, {500, 0.5}} {
		f, err := growth(course(1000, 10), course(c.perSecond, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got := f[consumedOfSent]; got < c.want-0.01 || got > c.want+0.01 {
			t.Errorf("consumed at %d of 1000 a second: %v, want %v", c.perSecond, got, c.want)
		}
	}
	if _, err := growth(nil, nil); err == nil {
		t.Error("nothing sent: no error")
	}
	if got := window(course(1000, 0), begin.Add(time.Second), begin.Add(2*time.Second)); len(got) != 100 || got[0].Runs != 1000 {
		t.Errorf("the window has %d samples", len(got))
	}
}
