package main

import (
	"fmt"
	"io"
	"time"
)

// A report is what came of a run.
type report struct {
	cfg         *config
	counts      counts
	began       time.Time
	took        time.Duration
	interrupted bool
	timedOut    bool // or interrupted

	// Of the orders; a member has none.
	orders       []sale
	twice        int // succeeded more than once
	rightly      int // of these, those that were as many pieces of work
	without      int // never succeeded
	short        int // of the others, those that succeeded less often than they were pieces of work
	deadLettered int // copies of them
	open         int // copies of them that are still to come
}

// fill completes the report from the ledger and the tally.
func (r *report) fill(books *ledger, t *tally) error {
	r.took = time.Since(r.began)
	r.counts = t.read()
	if err := books.refresh(); err != nil {
		return err
	}
	for i := range r.orders {
		o := &r.orders[i]
		runs, works := books.successes(o.id), o.works(r.cfg.key)
		switch {
		case runs == 0:
			r.without++
		case runs < works:
			r.short++
		}
		if runs > 1 {
			r.twice++
			if runs == works {
				r.rightly++
			}
		}
		open, dead := books.standing(o.copies())
		r.open += open
		r.deadLettered += dead
	}
	return nil
}

// good says whether each piece of work succeeded once.
func (r *report) good() bool {
	return r.twice == r.rightly && r.without == 0 && r.short == 0 && r.open == 0
}

// status is the exit status.
func (r *report) status() int {
	switch {
	case r.interrupted:
		return exitInterrupted
	case r.good():
		return exitGood
	}
	return exitBad
}

func (r *report) print(to io.Writer) {
	row := func(name string, n int) { fmt.Fprintf(to, "  %-42s %8d\n", name, n) }
	rare := func(name string, n int) {
		if n > 0 {
			row(name, n)
		}
	}
	c := &r.counts
	fmt.Fprintln(to)
	row("delivered", c.delivered)
	row("run", c.run)
	row("suppressed", c.suppressed)
	row("sent back in flight", c.inFlight)
	row("retried", c.retried)
	rare("sent back with such a batch-mate", c.withMates)
	row("taken over", c.takenOver)
	rare("let go unanswered at the end", c.held)
	rare("store did not answer", c.unreachable)
	rare("run unprotected", c.unprotected)
	rare("claims lost", c.claimsLost)
	rare("panics", c.panics)
	rare("dead-lettered while in flight elsewhere", c.unsettled)
	rare("dead-lettered with a batch-mate", c.mates)
	if r.cfg.janitor != "" {
		row("dead claims that the janitor cleared", c.cleared)
		row("DONE that the janitor purged", c.purged)
		rare("sweeps of the janitor that failed", c.failedSweeps)
	}
	if r.orders != nil {
		row("orders with more than one successful run", r.twice)
		row("orders without one", r.without)
		row("in the dead-letter topic", r.deadLettered)
	}
	fmt.Fprintln(to)
	for _, line := range r.verdict() {
		fmt.Fprintln(to, line)
	}
}

// verdict says in words what the figures mean.
func (r *report) verdict() []string {
	took := r.took.Round(100 * time.Millisecond)
	if r.orders == nil {
		return []string{fmt.Sprintf("%v as a member; the process that produces knows the orders.", took)}
	}
	var lines []string
	say := func(n int, format string, args ...any) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%d "+format, append([]any{n}, args...)...))
		}
	}
	switch {
	case r.interrupted:
		lines = append(lines, fmt.Sprintf("Interrupted after %v.", took))
	case r.timedOut:
		lines = append(lines, fmt.Sprintf("Given up after %v (-timeout).", took))
	}
	say(r.rightly, "orders succeeded twice, rightly: they were sent under two message IDs, and -key %s takes these for two pieces of work. -key %s does not.", byMessageID, byOrderID)
	say(r.twice-r.rightly, "orders SUCCEEDED TOO OFTEN.")
	say(r.without, "orders did not succeed.")
	say(r.short, "orders succeeded under one of their message IDs only.")
	say(r.open, "copies were neither acknowledged nor dead-lettered.")
	say(r.deadLettered, "copies are in the dead-letter topic %s.", r.cfg.deadLetterTopic())
	if r.good() {
		what := "order"
		if r.cfg.key == byMessageID {
			what = "message ID of an order"
		}
		lines = append(lines, fmt.Sprintf("Each %s succeeded once, in %v.", what, took))
	}
	return lines
}
