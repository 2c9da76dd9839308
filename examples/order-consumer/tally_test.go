package main

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// delivery makes one of messages with these copies.
func delivery(copies ...string) rmqdedup.Delivery {
	var d rmqdedup.Delivery
	for _, c := range copies {
		m := &primitive.MessageExt{}
		m.WithProperty(copyProperty, c)
		d.Messages = append(d.Messages, m)
	}
	return d
}

func TestTally(t *testing.T) {
	const ok, later, suspend = consumer.ConsumeSuccess, consumer.ConsumeRetryLater, consumer.SuspendCurrentQueueAMoment
	for _, c := range []struct {
		name   string
		copies []string
		result rmqdedup.Result
		want   counts
		open   int // copies that are still to come
	}{
		{"run", []string{"a"}, rmqdedup.Result{Answer: ok, Ran: 1}, counts{delivered: 1, run: 1}, 0},
		{"suppressed", []string{"a"}, rmqdedup.Result{Answer: ok, Suppressed: 1}, counts{delivered: 1, suppressed: 1}, 0},
		{"taken over", []string{"a"}, rmqdedup.Result{Answer: ok, Ran: 1, TakenOver: 1}, counts{delivered: 1, run: 1, takenOver: 1}, 0},
		{"refused", []string{"a"}, rmqdedup.Result{Answer: later, Ran: 1, Failed: 1}, counts{delivered: 1, run: 1, retried: 1}, 1},
		{"refused, ordered", []string{"a"}, rmqdedup.Result{Answer: suspend, Ran: 1, Failed: 1}, counts{delivered: 1, run: 1, retried: 1}, 1},
		{"in flight", []string{"a"}, rmqdedup.Result{Answer: later, InFlight: 1}, counts{delivered: 1, inFlight: 1}, 1},
		{"in flight, and waited for", []string{"a"}, rmqdedup.Result{Answer: ok, InFlight: 1, Suppressed: 1}, counts{delivered: 1, suppressed: 1}, 0},
		{"a mixed batch", []string{"a", "b", "c"}, rmqdedup.Result{Answer: later, InFlight: 1, Ran: 1, Suppressed: 1}, counts{delivered: 3, run: 1, suppressed: 1, inFlight: 1, withMates: 2}, 3},
		{"held at the end", []string{"a"}, rmqdedup.Result{Answer: later, Held: true}, counts{delivered: 1, held: 1}, 1},
		{"held, though its answer is success", []string{"a"}, rmqdedup.Result{Answer: ok, Held: true}, counts{delivered: 1, held: 1}, 1},
	} {
		books, err := openLedger("")
		if err != nil {
			t.Fatal(err)
		}
		tl := &tally{books: books}
		tl.End(context.Background(), delivery(c.copies...), c.result)
		if got := tl.read(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if open, _ := books.standing(c.copies); open != c.open {
			t.Errorf("%s: %d copies are still to come, want %d", c.name, open, c.open)
		}
	}
}

func TestTallyCountsSweeps(t *testing.T) {
	tl := &tally{}
	for _, r := range []janitor.Report{
		{Cleared: 2, Purged: 3},
		{Cleared: 1, Err: errors.New("the store is away")},
		{Purged: 1, Err: context.Canceled},
		{Skipped: true, Err: janitor.ErrSweeping},
	} {
		tl.Sweep(context.Background(), r)
	}
	if got, want := tl.read(), (counts{cleared: 3, purged: 4, failedSweeps: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTallyCountsEvents(t *testing.T) {
	tl := &tally{}
	for _, kind := range []rmqdedup.EventKind{
		rmqdedup.EventSuppressed, rmqdedup.EventClaimLost, rmqdedup.EventPanic, rmqdedup.EventLastAttemptUnsettled, rmqdedup.EventBatchMateDeadLettered,
	} {
		tl.Event(context.Background(), rmqdedup.Event{Kind: kind})
	}
	if got, want := tl.read(), (counts{claimsLost: 1, panics: 1, unsettled: 1, mates: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
