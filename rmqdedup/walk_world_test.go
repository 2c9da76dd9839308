package rmqdedup_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// A world is everything in one walk. Its mutex guards all of the model; nobody holds it while time passes or while
// the wrapper is called.
type world struct {
	plan  *walkPlan
	start time.Time
	end   chan struct{} // closed at the very end: lets go of what a crash has left hanging

	mu      sync.Mutex
	works   []*work
	sent    []*sentMessage
	broker  *brokerModel
	members []*groupMember // those that have gone, too
	ledger  *ledger
	weather []spell
	active  map[*handlerRun]bool
	workOf  map[[32]byte]*work // by the digest of the key
	claims  map[rmqdedup.Owner]*claimView
	healed  bool
	counts  map[string]int // of what happened

	diaryMu    sync.Mutex
	diary      []string
	violations []string
	concerned  string // whom the first violation is about
	over       bool   // the walk is: nothing is judged any more
}

func newWorld(seed uint64) *world {
	return &world{
		plan: newPlan(seed), active: make(map[*handlerRun]bool), counts: make(map[string]int),
		workOf: make(map[[32]byte]*work), claims: make(map[rmqdedup.Owner]*claimView),
	}
}

// Bounds of a walk, in the bubble's time.
const (
	drainBound    = 3 * time.Hour    // everything has been consumed so long after the storm
	shutdownBound = 20 * time.Minute // a shutdown without faults has ended, the slowest handler included
)

// live is one walk, in a bubble.
func (w *world) live() {
	w.start = time.Now()
	w.end = make(chan struct{})
	table, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	w.ledger = newLedger(w, table)
	w.broker = newBroker(w)
	w.planWorks()
	w.note("* %v", w.plan)
	for range w.plan.members {
		w.join()
	}
	w.weatherTheStorm()
	w.heal()
	w.untilDrained()
	w.shutDownAll()
	w.checkFates()
	w.clearUp()
}

// untilDrained waits until the broker has nothing left to deliver.
func (w *world) untilDrained() {
	until := time.Now().Add(drainBound)
	for !w.broken() && !w.drained() {
		if time.Now().After(until) {
			w.violate("", "%v after the last fault there are still messages that were neither acknowledged nor dead-lettered: %s", drainBound, w.undelivered())
			return
		}
		w.wait(time.Second, nil, nil)
	}
	w.note("* drained")
}

// shutDownAll shuts down every member that is left, with time enough.
func (w *world) shutDownAll() {
	if w.broken() {
		return
	}
	var all sync.WaitGroup
	for _, m := range w.living() {
		all.Go(func() {
			if err := m.leave(shutdownBound, false); err != nil && !w.broken() {
				w.violate("", "%s was shut down in good health and with time enough, and yet: %v", m.name, err)
			}
		})
	}
	all.Wait()
}

// clearUp lets go of everything, so that only what the wrapper cannot end by itself is left in the bubble.
func (w *world) clearUp() {
	w.diaryMu.Lock()
	w.over = true
	w.diaryMu.Unlock()
	close(w.end)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for _, m := range w.members {
		_ = m.dedup.Close(gone)
	}
	<-time.After(time.Hour) // a bubble's time stops with this goroutine; timers are to end before
}

// wait lets time pass. It says no if one of the channels is closed before, or the walk ends.
func (w *world) wait(d time.Duration, stop, or <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
	case <-or:
	case <-w.end:
	}
	return false
}

func (w *world) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// living are the members that have neither crashed nor begun to shut down.
func (w *world) living() (living []*groupMember) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if m.watch.drainedAt.IsZero() && !m.crashed() {
			living = append(living, m)
		}
	}
	return living
}

func (w *world) drained() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if !m.crashed() && (m.leaving || len(m.calls) > 0) {
			return false
		}
	}
	return w.broker.drained()
}

func (w *world) undelivered() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broker.undelivered()
}

// saw counts something that happened. The mutex is held.
func (w *world) saw(what string) { w.counts[what]++ }

// note writes a line into the walk's diary. A line that concerns everybody begins with a star.
func (w *world) note(format string, args ...any) {
	w.diaryMu.Lock()
	defer w.diaryMu.Unlock()
	w.write(fmt.Sprintf(format, args...))
}

func (w *world) write(line string) {
	w.diary = append(w.diary, fmt.Sprintf("%11.3f  %s", time.Since(w.start).Seconds(), line))
}

// violate reports a broken law, about one work or member or (with an empty string) about all.
func (w *world) violate(about, format string, args ...any) {
	w.diaryMu.Lock()
	defer w.diaryMu.Unlock()
	if w.over {
		return // what is let go of at the end follows no law any more
	}
	text := fmt.Sprintf(format, args...)
	w.write("* LAW BROKEN: " + text)
	if len(w.violations) == 0 {
		w.concerned = about
	}
	w.violations = append(w.violations, text)
}

func (w *world) broken() bool {
	w.diaryMu.Lock()
	defer w.diaryMu.Unlock()
	return len(w.violations) > 0
}

// report tells the first violation and the story behind it: the lines of the diary that concern it, or all of them.
func (w *world) report(all bool) string {
	var b strings.Builder
	for _, v := range w.violations[:min(len(w.violations), 3)] {
		fmt.Fprintf(&b, "%s\n", v)
	}
	const longest = 250
	var lines []string
	for _, line := range w.diary {
		if all || w.concerned == "" || strings.Contains(line, w.concerned) || strings.Contains(line, "  * ") {
			lines = append(lines, line)
		}
	}
	if skipped := len(lines) - longest; skipped > 0 && !all {
		lines = append(lines[:20:20], append([]string{fmt.Sprintf("… %d lines …", skipped)}, lines[skipped+20:]...)...)
	}
	fmt.Fprintf(&b, "\n%s", strings.Join(lines, "\n"))
	return b.String()
}

// A work is one piece of work as the business sees it: what is to be done once.
type work struct {
	name        string // such as "order-C"
	byMessageID bool   // it has no order number, or the key function does not look at it
	unprotected bool   // it has no key at all
	refusals    int    // so many of its runs are refused by the handler; forever if negative
	messages    []*sentMessage

	runs int // started
	done int // of these, with success
	key  *rmqdedup.Key
}

// A sentMessage is one message as its producer sent it. The broker may hold several copies.
type sentMessage struct {
	number       int
	work         *work
	queue        int
	stored       bool
	offset       int64 // in its queue, once it is stored
	acknowledged int
	dead         int // copies in the dead-letter queue
}

func (s *sentMessage) String() string { return fmt.Sprintf("%s#%d", s.work.name, s.number) }
