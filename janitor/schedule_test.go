package janitor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
)

func TestIntervals(t *testing.T) {
	const m, h = time.Minute, time.Hour
	for _, tt := range []struct {
		spec              string
		shortest, longest time.Duration
	}{
		{"@every 1m", m, m},
		{"@every 1h30m", 90 * m, 90 * m},
		{"* * * * *", m, m},
		{"*/7 * * * *", 4 * m, 7 * m}, // from :56 to the full hour
		{"0 3 * * *", 24 * h, 24 * h},
		{"0 9-17 * * *", h, 16 * h},
		{"0 3 * * 1-5", 24 * h, 72 * h}, // the weekend
		{"0 3 * * 0", 7 * 24 * h, 7 * 24 * h},
		{"0 0 1 * *", 28 * 24 * h, 31 * 24 * h},
		{"@daily", 24 * h, 24 * h},
		{"@yearly", 365 * 24 * h, 366 * 24 * h},
		{"CRON_TZ=Asia/Shanghai 0 3 * * *", 24 * h, 24 * h},
		{"CRON_TZ=Europe/Berlin 0 3 * * *", 23 * h, 25 * h}, // the nights in which the clocks change
	} {
		t.Run(tt.spec, func(t *testing.T) {
			s, err := janitor.Parse(tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			shortest, longest := janitor.Intervals(s)
			if tt.spec == "@yearly" || tt.spec == "0 0 1 * *" { // which years it looks at is the calendar's business
				if shortest < tt.shortest || longest > tt.longest {
					t.Errorf("from %v to %v", shortest, longest)
				}
				return
			}
			if shortest != tt.shortest || longest != tt.longest {
				t.Errorf("from %v to %v, want from %v to %v", shortest, longest, tt.shortest, tt.longest)
			}
		})
	}
}

// What cannot be kept to is refused with what it could be, and nothing panics.
func TestScheduleRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"every minute":            "expected exactly 5 fields, found 2",
		"0 0 3 * * *":             "expected exactly 5 fields, found 6",
		"61 * * * *":              "61",
		"@every":                  "unrecognized descriptor",
		"@every soon":             "failed to parse duration",
		"@every 500ms":            "500ms is below one second",
		"@every -5m":              "-5m0s is below one second",
		"@every 0s":               "0s is below one second",
		"@often":                  "unrecognized descriptor",
		"0 0 30 2 *":              "no such day",
		", * * * *":               "no such day",
		"CRON_TZ=Europe/Berlin":   "a time zone without a schedule",
		"TZ=":                     "a time zone without a schedule",
		"CRON_TZ=Mars/One @daily": "bad location Mars/One",
		"CRON_TZ=UTC @every 1ms":  "1ms is below one second",
		" ":                       "expected exactly 5 fields, found 0",
	} {
		t.Run(spec, func(t *testing.T) {
			_, err := janitor.Parse(spec)
			if err == nil {
				t.Fatal("taken in")
			}
			for _, want := range []string{"Schedule is \"" + spec + "\"", want, "five fields", "*/5 * * * *", "@every 1m30s", "@hourly"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}
