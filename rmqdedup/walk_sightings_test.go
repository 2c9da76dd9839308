package rmqdedup_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// sightings count what happened on all walks of a run, so that a walk that has become too tame is noticed.
type sightings struct {
	mu     sync.Mutex
	counts map[string]int
}

func newSightings() *sightings { return &sightings{counts: make(map[string]int)} }

func (s *sightings) add(w *world) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, n := range w.counts {
		s.counts[what] += n
	}
}

func (s *sightings) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	var all []string
	for what := range s.counts {
		all = append(all, what)
	}
	slices.Sort(all)
	for _, what := range all {
		fmt.Fprintf(&b, "\n  %7d  %s", s.counts[what], what)
	}
	return b.String()
}

// check fails if something that the laws are about was never met: then they were not tested.
func (s *sightings) check(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range []string{
		"acknowledged", "answer held until the consumer was shut down", "answer thrown away", "answered while draining",
		"cleaned: running at the consume timeout", "consumed directly", "dead-lettered: a batch-mate", "dead-lettered: by the cleaner", "dead-lettered: refused",
		"dead-lettered: unsettled", "event: batch-mate dead-lettered", "event: claim lost", "event: held", "event: in flight",
		"event: last attempt", "event: last attempt unsettled", "event: panic", "event: repeated", "event: suppressed", "event: taken over",
		"event: unprotected", "event: write dropped", "event: write landed", "event: write pending", "member crashed",
		"member left in the storm", "member not seen", "overlap after a claim was lost", "queue replayed", "released", "abandoned",
		"request arrived late", "run cancelled: claim lost", "run cancelled: draining", "run unprotected in an outage", "run without a key",
		"send-back failed both ways", "send-back failed, sent as normal", "taken over",
	} {
		if s.counts[what] == 0 {
			t.Errorf("no walk met this: %s", what)
		}
	}
}
