package e2e

import (
	"context"
	"log/slog"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// onTables are the databases alone: stores that keep what is past its time until a janitor comes.
var onTables = setting{tables: true}

// A sweeper is a janitor that sweeps the story's table every second.
type sweeper struct{ reports chan janitor.Report }

func (w sweeper) Sweep(_ context.Context, r janitor.Report) {
	if !r.Skipped && (r.Cleared+r.Purged > 0 || r.Err != nil) { // a slow one has the next one skipped
		w.reports <- r
	}
}

// sweeps has a janitor sweep for as long as the story lasts.
func (s *story) sweeps() sweeper {
	s.Helper()
	w := sweeper{make(chan janitor.Report, 100)}
	j, err := janitor.New(s.store, janitor.Config{Schedule: "@every 1s", Jitter: janitor.NoJitter, Observer: w, Logger: slog.New(slog.DiscardHandler)})
	s.must(err)
	ctx, stop := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- j.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.Errorf("the janitor: %v", err)
		}
	})
	return w
}

// await waits for the sweep that found something, and checks how many claims it cleared.
func (w sweeper) await(s *story, cleared int) {
	s.Helper()
	select {
	case r := <-w.reports:
		if r.Err != nil || r.Cleared != cleared || r.Purged != 0 {
			s.Errorf("a sweep cleared %d claims and purged %d DONE, error %v; want %d claims and no DONE", r.Cleared, r.Purged, r.Err, cleared)
		}
	case <-s.ctx.Done():
		s.Fatalf("waiting for a sweep that clears %d claims: %v", cleared, context.Cause(s.ctx))
	}
}

// Case 17: a member is killed in its handler, and no janitor runs. Its claim stays as an orphan for as long as nobody wants the message, and whoever gets
// that takes the claim over. What the dead one had finished stays DONE.
func TestDeadClaimIsTakenOver(t *testing.T) {
	play(t, onTables, func(s *story) {
		victim := s.spawn("a")
		s.settle("a")
		s.sendToDeath()
		victim.kill()
		s.awaitState("fatal-order", rmqdedup.Orphan)
		s.join("a", s.does(succeed))
		s.await(acknowledged, "fatal-order")
		s.takenOver("fatal-order", 1)
		s.want(2, started, "fatal-order")
		s.wantSuppressed()
	})
}

// The same with a janitor, which clears the claim before anybody wants the message: it runs as if it were new. The janitor leaves what is DONE alone.
func TestDeadClaimIsClearedByTheJanitor(t *testing.T) {
	play(t, onTables, func(s *story) {
		sweeps := s.sweeps()
		victim := s.spawn("a")
		s.settle("a")
		s.sendToDeath()
		victim.kill()
		sweeps.await(s, 1)
		s.awaitState("fatal-order", rmqdedup.Absent)
		s.join("a", s.does(succeed))
		s.await(acknowledged, "fatal-order")
		s.want(0, rmqdedup.EventTakenOver, "")
		s.want(2, started, "fatal-order")
		s.wantSuppressed()
	})
}

// A janitor sweeps while a handler runs for longer than its lease, and while duplicates of what is done come: it takes neither the claim, which is renewed,
// nor DONE.
func TestJanitorLeavesWhatIsNeeded(t *testing.T) {
	play(t, onTables, func(s *story) {
		sweeps := s.sweeps()
		dead := s.rival("dead", lease)
		gate := make(chan struct{})
		s.join("a", s.only(special{"busy": s.does(hold(gate))}, s.does(succeed)))
		s.send("done")
		s.await(acknowledged, "done")
		s.send("busy")
		s.await(started, "busy")
		dead.dies()
		sweeps.await(s, 1) // the janitor has been by, and has work
		s.await(renewed, "busy", 6)
		s.send("done")
		s.await(rmqdedup.EventSuppressed, "done")
		s.send("busy")
		s.await(sentBack, "busy")
		close(gate)
		s.await(rmqdedup.EventSuppressed, "busy")
		s.want(1, started, "busy")
		s.want(0, rmqdedup.EventClaimLost, "")
	})
}

// awaitState waits until the store says so of a message.
func (s *story) awaitState(name string, want rmqdedup.Outcome) {
	s.Helper()
	var is rmqdedup.Outcome
	s.must(eventually(s.ctx, name+" to be "+want.String(), func() (bool, error) {
		is = s.state(name)
		return is == want, nil
	}))
}
