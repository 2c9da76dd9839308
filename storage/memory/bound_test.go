package memory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

func newStore(t testing.TB, c memory.Config) *memory.Store {
	t.Helper()
	store, err := memory.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// outcomes sends requests in one call and returns what became of them, "full" among it.
func outcomes(t testing.TB, s rmqdedup.Store, op rmqdedup.Op, reqs ...rmqdedup.Request) string {
	t.Helper()
	answers, err := rmqdedup.Do(t.Context(), s, op, reqs)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, a := range answers {
		switch {
		case errors.Is(a.Err, rmqdedup.ErrFull):
			words = append(words, "full")
		case a.Err != nil:
			t.Fatal(a.Err)
		default:
			words = append(words, a.Outcome.String())
		}
	}
	return strings.Join(words, ", ")
}

func TestNewRefusesNegativeMaxKeys(t *testing.T) {
	store, err := memory.New(memory.Config{MaxKeys: -3})
	if store != nil || err == nil || !strings.Contains(err.Error(), "MaxKeys is -3") {
		t.Errorf("store %v, error %v; want an error that names the setting and the figure", store, err)
	}
}

// At the bound nothing that is needed makes room: no claim, no orphan within its grace, no DONE within its retention.
func TestFull(t *testing.T) {
	s := newStore(t, memory.Config{MaxKeys: 3})
	claim, orphan, done, more := request("claim"), request("orphan"), request("done"), request("more")
	orphan.Grace = time.Hour
	if got := outcomes(t, s, rmqdedup.OpAcquire, claim, orphan, done, more); got != "claimed, claimed, claimed, full" {
		t.Fatal(got)
	}
	outcomes(t, s, rmqdedup.OpComplete, done)
	s.Age(orphan.Key, 2*time.Minute)
	for range 3 {
		if got := outcomes(t, s, rmqdedup.OpAcquire, more, claim); got != "full, claimed" {
			t.Errorf("beside three records that are needed: %s; want full, and the one that is there claimed again", got)
		}
		if got := outcomes(t, s, rmqdedup.OpComplete, more); got != "full" {
			t.Errorf("complete without a claim, beside three records that are needed: %s; want full", got)
		}
	}
	if got := outcomes(t, s, rmqdedup.OpLookup, claim, orphan, done, more); got != "in flight, orphan, done, absent" {
		t.Error(got)
	}
	answers, err := s.Acquire(t.Context(), []rmqdedup.Request{more})
	if err != nil || !strings.Contains(answers[0].Err.Error(), "MaxKeys") || !strings.Contains(answers[0].Err.Error(), "3 records") {
		t.Errorf("%v, %v; want an error that names the setting and the figure", answers, err)
	}

	// What is past its time makes room, one by one.
	s.Age(done.Key, 2*time.Hour)
	if got := outcomes(t, s, rmqdedup.OpAcquire, more, done); got != "claimed, full" {
		t.Errorf("with one record past its retention: %s", got)
	}
	s.Age(orphan.Key, 2*time.Hour)
	if got := outcomes(t, s, rmqdedup.OpAcquire, done); got != "claimed" {
		t.Errorf("with one record past its grace: %s", got)
	}
	outcomes(t, s, rmqdedup.OpRelease, claim)
	if got := outcomes(t, s, rmqdedup.OpAcquire, request("another")); got != "claimed" {
		t.Errorf("after a release: %s", got)
	}
}

// Random operations leave table and queues in agreement.
func TestQueues(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStore(t, memory.Config{MaxKeys: 150})
	owners := []rmqdedup.Owner{rmqdedup.NewOwner(), rmqdedup.NewOwner()}
	ops := []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpRenew, rmqdedup.OpComplete, rmqdedup.OpRelease, rmqdedup.OpAbandon, rmqdedup.OpForget}
	for i := range 20_000 {
		q := request(fmt.Sprint(random.IntN(200)))
		q.Owner = owners[random.IntN(len(owners))]
		q.Lease = time.Duration(1+random.IntN(1000)) * time.Minute
		q.Grace = time.Duration(random.IntN(3)) * time.Minute
		q.Retention = time.Duration(1+random.IntN(1000)) * time.Minute
		if random.IntN(4) == 0 {
			s.Age(q.Key, time.Duration(random.IntN(1000))*time.Minute)
		} else {
			outcomes(t, s, ops[random.IntN(len(ops))], q)
		}
		if err := s.Check(); err != nil {
			t.Fatalf("after %d operations: %v", i+1, err)
		}
	}
}

// A record does not hold on to the body that its key was cut from.
func TestTextIsCopied(t *testing.T) {
	s := newStore(t, memory.Config{})
	freed := make(chan struct{})
	func() {
		body := new([1 << 20]byte)
		runtime.AddCleanup(body, func(freed chan struct{}) { close(freed) }, freed)
		part := func(n int) string { return unsafe.String(&body[n], n) } // as a parser's strings are parts of what it parsed
		q := request("")
		q.Key = rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "group", part(8), part(16), part(24))
		q.MessageID = part(32)
		outcomes(t, s, rmqdedup.OpAcquire, q)
		outcomes(t, s, rmqdedup.OpComplete, q)
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-freed:
			runtime.KeepAlive(s)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the body is still in memory")
}

// What a message costs: the answers of two calls, the record and its text. The wrapper's budget of eight has them in
// it.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := newStore(t, memory.Config{})
	const runs = 1000
	reqs := make([]rmqdedup.Request, runs+1)
	for i := range reqs {
		reqs[i] = request(fmt.Sprint(i))
	}
	i, ctx := 0, t.Context()
	got := testing.AllocsPerRun(runs, func() {
		q := reqs[i : i+1]
		i++
		_, _ = s.Acquire(ctx, q)
		_, _ = s.Complete(ctx, q)
	})
	if got > 4 {
		t.Errorf("%v allocations a message; want 4 at most: two answers, the record, its text", got)
	}
}
