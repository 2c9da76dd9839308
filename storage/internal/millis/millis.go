// Package millis turns durations into the whole milliseconds that stores keep, and back.
package millis

import (
	"math"
	"time"
)

// Of rounds up, so that nothing ends early.
func Of(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// Duration is the way back. What rounding up has made too long for a duration is the longest there is.
func Duration(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
