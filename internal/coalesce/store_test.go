package coalesce

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
	"github.com/rmqdedup/rmqdedup-go/storage/storagetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The RocketMQ client, which package rmqdedup imports, starts it when it is loaded, and nothing stops it.
		goleak.IgnoreTopFunction("github.com/patrickmn/go-cache.(*janitor).Run"),
	)
}

// A table is a store in memory, whose calls share.
type table struct{ store *memory.Store }

func (tb table) Store(t testing.TB) rmqdedup.Store {
	t.Helper()
	every := []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpRenew, rmqdedup.OpComplete, rmqdedup.OpRelease, rmqdedup.OpAbandon}
	c := New(Config{
		Name: "memory", Ops: every, Limit: time.Minute,
		Do: func(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			runtime.Gosched() // to let others come
			return rmqdedup.Do(ctx, tb.store, op, reqs)
		},
		DoAll: func(ctx context.Context, calls []Part) {
			runtime.Gosched()
			for i := range calls {
				calls[i].Answers, calls[i].Err = rmqdedup.Do(ctx, tb.store, calls[i].Op, calls[i].Requests)
			}
		},
		Window: func(time.Duration) int { return 1 },
	})
	t.Cleanup(c.Close)
	return rmqdedup.Intercept(tb.store, func(ctx context.Context, _ rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		return c.Do(ctx, op, reqs)
	})
}

func (tb table) Age(t testing.TB, key rmqdedup.Key, by time.Duration) {
	t.Helper()
	tb.store.Age(key, by)
}

// Behind a coalescer a store is as good as it was.
func TestStore(t *testing.T) {
	storagetest.Run(t, storagetest.Config{
		NewTable: func(t testing.TB) storagetest.Table {
			s, err := memory.New(memory.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return table{s}
		},
		KeepsParts: true, ExactBatches: true, DropsExpired: true,
	})
}

// Whatever callers do, each is answered what is its own, and no key is in a call of several callers twice.
func TestStorm(t *testing.T) {
	s := newStore(0)
	s.takes = func(c sent) time.Duration {
		seen := make(map[string]bool)
		for _, k := range c.keys {
			if seen[k] && len(c.keys) > 3 {
				t.Errorf("a key is in a call twice: %v", c.keys)
			}
			seen[k] = true
		}
		runtime.Gosched()
		return 0
	}
	for name, change := range map[string]func(*Config){"Each": func(*Config) {}, "Ungathered": ungathered, "All": s.all} {
		t.Run(name, func(t *testing.T) { storm(t, s, change) })
	}
}

func storm(t *testing.T, s *store, change func(*Config)) {
	c := s.with(change, func(config *Config) { config.Window = func(time.Duration) int { return 2 } })
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for j := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				op := rmqdedup.OpAcquire
				if j%2 == 1 {
					op = rmqdedup.OpComplete
				}
				if random.IntN(10) == 0 { // this one may go
					go cancel()
					if answers, err := c.Do(ctx, op, requests("x"+strconv.Itoa(i))); err == nil && answers[0].Record.MessageID != "x"+strconv.Itoa(i) {
						t.Errorf("somebody else's answer: %+v", answers[0])
					}
					continue
				}
				must(ctx, t, c, op, numbered(random.IntN(20), 1+random.IntN(3))...)
				cancel()
			}
		})
	}
	wg.Wait()
	c.Close()
	if c.running != 0 || c.waiting != 0 {
		t.Errorf("%d calls are under way and %d wait", c.running, c.waiting)
	}
}
