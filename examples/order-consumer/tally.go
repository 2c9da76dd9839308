package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A tally is an observer that counts this process's messages, and notes in the ledger those that will not come again. It counts what the
// janitor does, too.
type tally struct {
	rmqdedup.NopObserver
	books *ledger

	mu sync.Mutex
	counts
}

// counts are of messages. One that comes several times is counted as often.
type counts struct {
	delivered, run, suppressed    int
	inFlight, retried, withMates  int // sent back: found in flight, refused by the handler, in the same batch as one of these
	takenOver                     int
	held                          int // let go unanswered at the end
	unreachable, unprotected      int // the store did not answer
	claimsLost, panics            int
	unsettled, mates              int // dead-lettered, though their handler did not refuse them
	cleared, purged, failedSweeps int // by the janitor: claims, DONE; and its sweeps that failed
}

// End counts a delivery when it is answered.
func (t *tally) End(_ context.Context, d rmqdedup.Delivery, r rmqdedup.Result) {
	if r.Answer == consumer.ConsumeSuccess && !r.Held {
		if err := t.books.acknowledged(copiesOf(d.Messages)); err != nil {
			slog.Error("writing to the ledger", "err", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(d.Messages)
	t.delivered += n
	t.run += r.Ran
	t.suppressed += r.Suppressed
	t.takenOver += r.TakenOver
	t.unreachable += r.Unreachable
	t.unprotected += r.Unprotected
	switch {
	case r.Held:
		t.held += n
	case r.Answer != consumer.ConsumeSuccess:
		t.inFlight += r.InFlight
		t.retried += r.Failed
		t.withMates += max(n-r.InFlight-r.Failed-r.Unreachable, 0)
	}
}

// Event counts what a table of deliveries cannot show.
func (t *tally) Event(_ context.Context, e rmqdedup.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case rmqdedup.EventClaimLost:
		t.claimsLost++
	case rmqdedup.EventPanic:
		t.panics++
	case rmqdedup.EventLastAttemptUnsettled:
		t.unsettled++
	case rmqdedup.EventBatchMateDeadLettered:
		t.mates++
	}
}

// Sweep counts what the janitor removed.
func (t *tally) Sweep(_ context.Context, r janitor.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleared += r.Cleared
	t.purged += r.Purged
	if r.Err != nil && !r.Skipped && !errors.Is(r.Err, context.Canceled) { // that one was called off, at the end
		t.failedSweeps++
	}
}

func (t *tally) read() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

func copiesOf(msgs []*primitive.MessageExt) []string {
	copies := make([]string, 0, len(msgs))
	for _, m := range msgs {
		if name := m.GetProperty(copyProperty); name != "" {
			copies = append(copies, name)
		}
	}
	return copies
}
