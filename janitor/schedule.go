package janitor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// parse reads a cron spec, and refuses what cron would take in and never, or not so, keep to.
func parse(spec string) (cron.Schedule, error) {
	schedule, err := parseStandard(spec)
	if err != nil {
		return nil, fmt.Errorf("Schedule is %q: %w; give five fields (minute, hour, day of month, month, day of week) as in \"*/5 * * * *\", "+
			"\"@every 1m30s\", or one of @hourly, @daily, @weekly, with \"CRON_TZ=Europe/Berlin \" before it if need be", spec, err)
	}
	return schedule, nil
}

func parseStandard(spec string) (cron.Schedule, error) {
	when := spec
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		var ok bool
		if _, when, ok = strings.Cut(spec, " "); !ok { // cron panics
			return nil, errors.New("a time zone without a schedule")
		}
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, err
	}
	if every, ok := strings.CutPrefix(strings.TrimSpace(when), "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d < time.Second { // cron takes it for a second
			return nil, fmt.Errorf("%v is below one second", d)
		}
	}
	if schedule.Next(time.Now().UTC()).IsZero() {
		return nil, errors.New("there is no such day, or none within five years")
	}
	return schedule, nil
}

// intervals returns the shortest and the longest time between two of a schedule's times, in the course of a year, or of as many times as
// need not be counted further: that is two weeks of minutes.
//
// A schedule that names no time zone is looked at in UTC, where no day has 25 hours.
func intervals(schedule cron.Schedule) (shortest, longest time.Duration) {
	const enough = 20_000
	at := schedule.Next(time.Now().UTC())
	end := at.AddDate(1, 0, 0)
	for n := 0; n < enough && at.Before(end); n++ {
		next := schedule.Next(at)
		if next.IsZero() {
			break // a day so rare that cron does not look for the one after
		}
		between := next.Sub(at)
		longest = max(longest, between)
		if shortest == 0 || between < shortest {
			shortest = between
		}
		at = next
	}
	return shortest, longest
}

// A loose schedule is one with a random delay before each time, and a first time right at the start: several
// processes that are started at once do not sweep in the same instant.
type loose struct {
	cron.Schedule
	jitter time.Duration
	begun  bool
}

// Next is called by cron's goroutine alone.
func (s *loose) Next(now time.Time) time.Time {
	at := now
	if s.begun {
		at = s.Schedule.Next(now)
	}
	s.begun = true
	if at.IsZero() || s.jitter <= 0 {
		return at
	}
	return at.Add(rand.N(s.jitter))
}
