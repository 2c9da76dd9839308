package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

func memoryStore(t *testing.T) rmqdedup.Store {
	t.Helper()
	store, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestEveryMessageIsProcessedOnce(t *testing.T) {
	for _, p := range []*process{
		{space: "single-", keys: 1},
		{space: "batch-", keys: 8},
		{space: "duplicates-", keys: 1, duplicates: true},
		{space: "batches with duplicates-", keys: 8, duplicates: true},
	} {
		p.store = memoryStore(t)
		l := p.load(8)
		for range 2 {
			if _, err := p.run(t.Context(), l, 5*time.Millisecond); err != nil {
				t.Errorf("%s: %v", p.space, err)
			}
		}
	}
}

func TestDuplicatesAreAtOnceOrLate(t *testing.T) {
	p := &process{duplicates: true}
	var got []int
	for i := 1000; i < 1008; i++ {
		got = append(got, p.original(i))
	}
	if want := []int{1000, 1000, 1002, 1003 - 1 - lateBy, 1004, 1004, 1006, 1007 - 1 - lateBy}; !slices.Equal(got, want) {
		t.Errorf("the originals of 1000 to 1007 are %v, want %v", got, want)
	}
	if p.original(3) != 0 {
		t.Errorf("the original of 3 is %d", p.original(3))
	}
}

// A store that gives a claim to everybody must not pass for a fast one.
func TestAMessageThatRunsTwiceIsAnError(t *testing.T) {
	generous := func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		answers, err := rmqdedup.Do(ctx, next, op, reqs)
		for i := range answers {
			if op == rmqdedup.OpAcquire {
				answers[i] = rmqdedup.Answer{Outcome: rmqdedup.Claimed}
			} else {
				answers[i].Outcome = rmqdedup.Applied
			}
		}
		return answers, err
	}
	p := &process{store: rmqdedup.Intercept(memoryStore(t), generous), keys: 1, duplicates: true}
	if _, err := p.run(t.Context(), p.load(1), 5*time.Millisecond); err == nil || !strings.Contains(err.Error(), "run") {
		t.Errorf("the error is %v", err)
	}
}

func TestAStoresErrorEndsTheLoad(t *testing.T) {
	errStore := errors.New("the store is away")
	for _, failing := range []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpComplete} {
		away := func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			if op == failing {
				return nil, errStore
			}
			return rmqdedup.Do(ctx, next, op, reqs)
		}
		p := &process{store: rmqdedup.Intercept(memoryStore(t), away), keys: 1}
		if _, err := p.run(t.Context(), p.load(4), time.Hour); !errors.Is(err, errStore) {
			t.Errorf("%v fails: %v", failing, err)
		}
	}
}

func TestNoNumberComesTwice(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]bool{}
	l := &load{callers: 4, keys: 3, task: func(_ context.Context, first int) error {
		mu.Lock()
		defer mu.Unlock()
		for i := first; i < first+3; i++ {
			if seen[i] {
				t.Errorf("%d came twice", i)
			}
			seen[i] = true
		}
		return nil
	}}
	for range 3 {
		if perSecond, err := l.run(t.Context(), time.Millisecond); err != nil || perSecond <= 0 {
			t.Errorf("%v messages a second, %v", perSecond, err)
		}
	}
	for i := range int(l.next.Load()) {
		if !seen[i] {
			t.Fatalf("%d never came", i)
		}
	}
}

func TestALoadThatIsInterruptedIsNoFigure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{callers: 2, keys: 1, task: func(context.Context, int) error { cancel(); return nil }}
	if _, err := l.run(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
