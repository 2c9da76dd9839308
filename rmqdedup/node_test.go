package rmqdedup_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// A node is a member of the consumer group: a wrapper, its way to the store, which can be made to fail, and what it told.
type node struct {
	*rmqdedup.Dedup
	*faults
	heard *hearing
	table *memory.Store // which all nodes share
}

// newNode returns the first member of a group. It is closed when the test ends.
func newNode(t *testing.T, cfg rmqdedup.Config) *node {
	t.Helper()
	table, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return nodeOn(t, table, cfg)
}

// another returns a further member of n's group.
func (n *node) another(t *testing.T, cfg rmqdedup.Config) *node {
	t.Helper()
	return nodeOn(t, n.table, cfg)
}

func nodeOn(t *testing.T, table *memory.Store, cfg rmqdedup.Config) *node {
	t.Helper()
	n := &node{faults: &faults{}, heard: &hearing{}, table: table}
	if cfg.Key == nil {
		cfg.Key = rmqdedup.Keys
	}
	if cfg.Observer == nil {
		cfg.Observer = n.heard
	} else {
		cfg.Observer = rmqdedup.Observers(n.heard, cfg.Observer)
	}
	d, err := rmqdedup.New(rmqdedup.Intercept(table, n.intercept), group, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Dedup = d
	t.Cleanup(func() {
		n.set(nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return n
}

// wantState checks what the store has for an order.
func (n *node) wantState(t *testing.T, id string, want rmqdedup.Outcome) rmqdedup.Answer {
	t.Helper()
	got := lookup(t, n.table, keyOf(id))
	if got.Outcome != want {
		t.Errorf("the store has order %s as %v, want %v", id, got.Outcome, want)
	}
	return got
}

func lookup(t *testing.T, s rmqdedup.Store, key rmqdedup.Key) rmqdedup.Answer {
	t.Helper()
	answers, err := s.Lookup(context.Background(), []rmqdedup.Request{{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	return answers[0]
}

// claimElsewhere claims an order as a process would that the test knows nothing else of.
func (n *node) claimElsewhere(t *testing.T, id string, lease, grace time.Duration) rmqdedup.Request {
	t.Helper()
	r := rmqdedup.Request{Key: keyOf(id), Owner: rmqdedup.NewOwner(), Lease: lease, Grace: grace, Retention: time.Hour,
		MessageID: "uniq-" + id, Fingerprint: rmqdedup.Fingerprint(order(id).Body)}
	n.applyElsewhere(t, rmqdedup.OpAcquire, r)
	return r
}

func (n *node) applyElsewhere(t *testing.T, op rmqdedup.Op, r rmqdedup.Request) {
	t.Helper()
	answers, err := rmqdedup.Do(context.Background(), n.table, op, []rmqdedup.Request{r})
	if err = errors.Join(err, answers[0].Err); err != nil {
		t.Fatal(err)
	}
}

// hearing is an observer that remembers everything.
type hearing struct {
	mu      sync.Mutex
	events  []rmqdedup.Event
	results []rmqdedup.Result
}

func (h *hearing) Begin(ctx context.Context, _ rmqdedup.Delivery) context.Context { return ctx }

func (h *hearing) End(_ context.Context, _ rmqdedup.Delivery, r rmqdedup.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results = append(h.results, r)
}

func (h *hearing) Event(_ context.Context, e rmqdedup.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// of returns the events of a kind.
func (h *hearing) of(kind rmqdedup.EventKind) []rmqdedup.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []rmqdedup.Event
	for _, e := range h.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// last returns the result of the delivery that was answered last.
func (h *hearing) last() rmqdedup.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.results) == 0 {
		return rmqdedup.Result{}
	}
	return h.results[len(h.results)-1]
}

// want checks how often each of some kinds of events was heard.
func (h *hearing) want(t *testing.T, counts map[rmqdedup.EventKind]int) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if got := len(h.of(kind)); got != counts[kind] {
			t.Errorf("heard %q %d times, want %d", kind, got, counts[kind])
		}
	}
}
