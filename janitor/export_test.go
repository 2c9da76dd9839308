package janitor

import (
	"time"

	"github.com/robfig/cron/v3"
)

// What the tests of single parts need.
const (
	ProbeGroup  = probeGroup
	ProbeLease  = probeLease
	Retries     = retries
	MaxLeft     = maxLeft
	QuietProbes = quietProbes
	QuietEvery  = quietEvery
	QuietFloor  = quietFloor
	Gentlest    = smallestPart
	Longest     = longestPause
)

// A Pace is a pace, with its parts to be looked at.
type Pace struct{ *pace }

func NewPace(largest int, shortest time.Duration) Pace { return Pace{newPace(largest, shortest)} }

func (p Pace) Batch() int                   { return p.batch }
func (p Pace) Pause() time.Duration         { return p.pause }
func (p Pace) Idle() time.Duration          { return p.idle() }
func (p Pace) Begin()                       { p.begin() }
func (p Pace) Measured() bool               { return p.measured() }
func (p Pace) Quietened(took time.Duration) { p.quietened(took) }
func (p Pace) Felt(took time.Duration)      { p.felt(took) }
func (p Pace) TimedOut()                    { p.timedOut() }

func Parse(spec string) (cron.Schedule, error) { return parse(spec) }

func Intervals(s cron.Schedule) (shortest, longest time.Duration) { return intervals(s) }
