package main

import (
	"os"
	"strings"
	"testing"
)

// These need no server. Each starts its program before it becomes parallel, so that all of them run, which is mostly waiting, at the same time.

// Fewer orders, of which more fail, so that even of few some are retried.
var fewOrders = []string{"-produce", "300", "-fail", "0.07", "-seed", "1"}

// The run with no flag but those for brevity, as a newcomer has it. Nothing logs an error in it, the client neither.
func TestInProcess(t *testing.T) {
	p := launch(t, fewOrders...)
	t.Parallel()
	p.endsWell(t)
	for _, command := range []string{"make up", "-namesrv \"$RMQDEDUP_NAMESRV\" -store \"$RMQDEDUP_REDIS\"", `-store "$RMQDEDUP_MYSQL" -delay-levels "$RMQDEDUP_DELAY_LEVELS" -lease 5s -janitor '@every 30s'`, `make up SETS="redis mysql"`} {
		if !strings.Contains(p.stdout.String(), command) {
			t.Errorf("the end lacks %q:\n%s", command, &p.stdout)
		}
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.Contains(line, "s  ") { // of progress
			t.Errorf("logged: %s", line)
		}
	}
}

func TestInProcessBatch(t *testing.T) {
	p := launch(t, append(fewOrders, "-batch", "16", "-handlers", "4", "-handle-time", "20ms")...)
	t.Parallel()
	p.endsWell(t)
}

func TestInProcessOrdered(t *testing.T) {
	if raceDetector {
		t.Skip("rocketmq-client-go itself races in ordered consumption; go test -run Ordered without -race runs this")
	}
	p := launch(t, append(fewOrders, "-mode", "ordered")...)
	t.Parallel()
	p.endsWell(t)
}

// A handler that refuses everything ends in the dead-letter topic, and in another exit status.
func TestInProcessDeadLetters(t *testing.T) {
	p := launch(t, "-produce", "50", "-fail", "1", "-max-reconsume", "0", "-seed", "1")
	t.Parallel()
	p.end(t, exitBad)
	if dead, without := p.row(t, "in the dead-letter topic"), p.row(t, "orders without one"); dead != 65 || without != 50 {
		t.Errorf("dead-lettered %d, want 65; orders without a success %d, want 50\n%s", dead, without, &p.stdout)
	}
}

func TestInProcessInterrupt(t *testing.T) {
	p := launch(t, "-produce", "20000", "-handle-time", "100ms")
	t.Parallel()
	p.stderr.await(t, "delivered")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.end(t, exitInterrupted)
	if n := p.row(t, "orders with more than one successful run"); n != 0 || !strings.Contains(p.stdout.String(), "Interrupted after") {
		t.Errorf("%d orders succeeded twice:\n%s", n, &p.stdout)
	}
}
