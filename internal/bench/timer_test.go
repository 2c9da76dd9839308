package main

import (
	"testing"
	"time"
)

// However short the time is, the timer goes off, and can be used again.
func TestTheTimerGoesOff(t *testing.T) {
	timer, err := newTimer()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{1, time.Microsecond, time.Millisecond, 1} {
		if err := timer.wait(d); err != nil {
			t.Errorf("%v: %v", d, err)
		}
	}
	if err := timer.Close(); err != nil {
		t.Error(err)
	}
	if timer.wait(time.Hour) == nil {
		t.Error("a closed timer went off")
	}
}
