package main

import (
	"slices"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	once := sale{id: "o"}
	twice := sale{id: "o", again: true}
	sameID := sale{id: "o", again: true, sameID: true}
	for _, c := range []struct {
		name   string
		key    string
		order  sale
		runs   int
		acked  int // of its copies, the first ones
		dead   int // of its copies, the last ones
		status int
		say    string
	}{
		{"once", byOrderID, once, 1, 1, 0, exitGood, "Each order succeeded once"},
		{"sent again", byOrderID, twice, 1, 2, 0, exitGood, "Each order succeeded once"},
		{"sent again and run again", byOrderID, twice, 2, 2, 0, exitBad, "1 orders SUCCEEDED TOO OFTEN"},
		{"never", byOrderID, once, 0, 1, 0, exitBad, "1 orders did not succeed"},
		{"not yet", byOrderID, once, 0, 0, 0, exitBad, "1 copies were neither"},
		{"its duplicate is still to come", byOrderID, twice, 1, 1, 0, exitBad, "1 copies were neither"},
		{"dead-lettered", byOrderID, once, 0, 0, 1, exitBad, "1 copies are in the dead-letter topic %DLQ%g"},
		{"its duplicate was dead-lettered", byOrderID, twice, 1, 1, 1, exitGood, "1 copies are in the dead-letter topic"},
		{"by message ID, sent again", byMessageID, twice, 2, 2, 0, exitGood, "1 orders succeeded twice, rightly"},
		{"by message ID, sent again under the same ID", byMessageID, sameID, 1, 2, 0, exitGood, "Each message ID of an order succeeded once"},
		{"by message ID, sent again under the same ID and run again", byMessageID, sameID, 2, 2, 0, exitBad, "1 orders SUCCEEDED TOO OFTEN"},
		{"by message ID, a third time", byMessageID, twice, 3, 2, 0, exitBad, "1 orders SUCCEEDED TOO OFTEN"},
		{"by message ID, one of two lost", byMessageID, twice, 1, 2, 0, exitBad, "1 orders succeeded under one of their message IDs only"},
	} {
		books, err := openLedger("")
		if err != nil {
			t.Fatal(err)
		}
		for range c.runs {
			_ = books.succeeded([]string{c.order.id})
		}
		copies := c.order.copies()
		_ = books.acknowledged(copies[:c.acked])
		_ = books.deadLettered(copies[len(copies)-c.dead:])
		r := &report{cfg: &config{key: c.key, group: "g"}, orders: []sale{c.order}}
		if err := r.fill(books, &tally{}); err != nil {
			t.Fatal(err)
		}
		if got := r.status(); got != c.status {
			t.Errorf("%s: exit status %d, want %d", c.name, got, c.status)
		}
		var out strings.Builder
		r.print(&out)
		if !strings.Contains(out.String(), c.say) {
			t.Errorf("%s: the report lacks %q:\n%s", c.name, c.say, &out)
		}
	}
}

func TestReportOfTheJanitor(t *testing.T) {
	for _, c := range []struct {
		schedule string
		failed   int
		want     []string // rows, as they begin and end
	}{
		{"", 0, nil},
		{"@hourly", 0, []string{"dead claims that the janitor cleared 2", "DONE that the janitor purged 3"}},
		{"@hourly", 1, []string{"dead claims that the janitor cleared 2", "DONE that the janitor purged 3", "sweeps of the janitor that failed 1"}},
	} {
		r := &report{cfg: &config{janitor: c.schedule}, counts: counts{cleared: 2, purged: 3, failedSweeps: c.failed}}
		var out strings.Builder
		r.print(&out)
		var got []string
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "janitor") {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("schedule %q: rows %q, want %q", c.schedule, got, c.want)
		}
	}
}

func TestReportOfAnInterruptedRun(t *testing.T) {
	r := &report{cfg: &config{key: byOrderID}, orders: []sale{}, interrupted: true, timedOut: true}
	var out strings.Builder
	r.print(&out)
	if r.status() != exitInterrupted || !strings.Contains(out.String(), "Interrupted") || strings.Contains(out.String(), "-timeout") {
		t.Errorf("exit status %d:\n%s", r.status(), &out)
	}
}
