package millis_test

import (
	"math"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/storage/internal/millis"
)

func TestOf(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Hour: 3_600_000, math.MaxInt64: math.MaxInt64/1_000_000 + 1,
	} {
		if got := millis.Of(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
	for ms, want := range map[int64]time.Duration{
		0: 0, 2: 2 * time.Millisecond, math.MaxInt64/1_000_000 + 1: math.MaxInt64 / 1_000_000 * 1_000_000, -1: -time.Millisecond,
	} {
		if got := millis.Duration(ms); got != want {
			t.Errorf("%d: %v, want %v", ms, got, want)
		}
	}
}
