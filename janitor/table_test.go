package janitor_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// A table is a store of which every statement is noted and can be spoiled. Probes go to a memory store; what is to be
// swept are rows of its own, since a memory store drops them before a janitor comes.
type table struct {
	rmqdedup.Store
	probes *memory.Store

	mu     sync.Mutex
	claims []rmqdedup.Record // expired beyond their grace
	done   int               // past their retention
	said   []string          // each statement, as in "purge 50"
	times  []time.Time       // when it began
	ops    []rmqdedup.Request
	busy   int // rows of the statements under way

	spoil func(ctx context.Context, what string, rows int) error                   // before a statement; nil: nothing
	took  func(rows int) time.Duration                                             // how long one that deletes takes
	probe func(ctx context.Context, op rmqdedup.Op, busy int) (wait time.Duration) // what an operation of a probe waits
}

func newTable(t testing.TB, claims, done int) *table {
	t.Helper()
	store, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tab := &table{probes: store, done: done}
	tab.Store = rmqdedup.Intercept(store, tab.operate)
	for range claims {
		tab.expire()
	}
	return tab
}

// expire adds a claim that is expired.
func (t *table) expire() rmqdedup.Record {
	owner := rmqdedup.NewOwner()
	r := rmqdedup.Record{Key: keyOf(owner.String()), Owner: owner, Until: time.Now().Add(-time.Hour)}
	t.claims = append(t.claims, r)
	return r
}

func keyOf(value string) rmqdedup.Key {
	return rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", value)
}

func (t *table) operate(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	t.mu.Lock()
	t.said = append(t.said, op.String())
	t.times = append(t.times, time.Now())
	t.ops = append(t.ops, reqs...)
	t.mu.Unlock()
	if t.probe != nil {
		// What begins at the same moment is to be there whichever goroutine is first.
		const moment = time.Microsecond
		if err := wait(ctx, moment); err != nil {
			return nil, err
		}
		t.mu.Lock()
		busy := t.busy
		t.mu.Unlock()
		if err := wait(ctx, t.probe(ctx, op, busy)-moment); err != nil {
			return nil, err
		}
	}
	return rmqdedup.Do(ctx, next, op, reqs)
}

func (t *table) Expired(ctx context.Context, limit int, orphans bool) ([]rmqdedup.Record, error) {
	if err := t.statement(ctx, "expired", limit); err != nil {
		return nil, err
	}
	if orphans {
		panic("orphans are for a checker")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.claims[:min(limit, len(t.claims))]), nil
}

func (t *table) Clear(ctx context.Context, records []rmqdedup.Record) (cleared int, err error) {
	if err := t.delete(ctx, "clear", len(records)); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	read := make(map[rmqdedup.Owner]time.Time, len(records))
	for _, r := range records {
		read[r.Owner] = r.Until
	}
	before := len(t.claims)
	t.claims = slices.DeleteFunc(t.claims, func(c rmqdedup.Record) bool {
		until, ok := read[c.Owner]
		return ok && until.Equal(c.Until)
	})
	return before - len(t.claims), nil
}

func (t *table) Purge(ctx context.Context, limit int) (purged int, err error) {
	if err := t.delete(ctx, "purge", limit); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(limit, t.done)
	t.done -= n
	return n, nil
}

func (t *table) statement(ctx context.Context, what string, rows int) error {
	t.mu.Lock()
	t.said = append(t.said, fmt.Sprintf("%s %d", what, rows))
	t.times = append(t.times, time.Now())
	spoil := t.spoil
	t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if spoil == nil {
		return nil
	}
	return spoil(ctx, what, rows)
}

// delete is a statement that others feel while it goes on.
func (t *table) delete(ctx context.Context, what string, rows int) error {
	t.mu.Lock()
	t.busy += rows
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.busy -= rows
		t.mu.Unlock()
	}()
	if err := t.statement(ctx, what, rows); err != nil || t.took == nil {
		return err
	}
	return wait(ctx, t.took(rows))
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// statements returns what was said, and how it begins if there are prefixes: "purge" finds each "purge 50".
func (t *table) statements(prefixes ...string) (found []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.said {
		if len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) }) {
			found = append(found, s)
		}
	}
	return found
}

// begun returns when each statement began that begins so, since that moment.
func (t *table) begun(since time.Time, prefix string) (at []time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range t.said {
		if strings.HasPrefix(s, prefix) {
			at = append(at, t.times[i].Sub(since))
		}
	}
	return at
}

func (t *table) rows() (claims, done int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.claims), t.done
}

func (t *table) set(spoil func(ctx context.Context, what string, rows int) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spoil = spoil
}

// A hearing is an observer that remembers every report.
type hearing struct {
	mu      sync.Mutex
	reports []janitor.Report
}

func (h *hearing) Sweep(_ context.Context, r janitor.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reports = append(h.reports, r)
}

func (h *hearing) heard() []janitor.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.reports)
}

// A journal is a logger's output, without what differs from run to run.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// lines returns the lines that have each of the words.
func (j *journal) lines(words ...string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.buf.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// newJanitor returns a janitor, what its observer hears, and what it logs.
func newJanitor(t testing.TB, store rmqdedup.Store, cfg janitor.Config) (*janitor.Janitor, *hearing, *journal) {
	t.Helper()
	h, log := &hearing{}, &journal{}
	if cfg.Observer == nil {
		cfg.Observer = h
	}
	cfg.Logger = log.logger()
	j, err := janitor.New(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return j, h, log
}

// run starts Run in a bubble, and returns what ends it and waits for it.
func run(t testing.TB, j *janitor.Janitor) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- j.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func wantSaid(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the statements are %q, want %q", got, want)
	}
}
