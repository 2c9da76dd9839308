package coalesce

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// limit is the time limit of coalescers in these tests.
const limit = time.Second

// A sent is a call that the store was made.
type sent struct {
	op   rmqdedup.Op
	keys []string
	ctx  context.Context
	at   time.Duration // since the store was made
}

// A store is a fake: it takes as long as it is told, and answers each request with what belongs to its key.
type store struct {
	began time.Time
	takes func(sent) time.Duration
	fails func(sent) error // the call as a whole
	trip  time.Duration    // a ping's

	mu    sync.Mutex
	calls []sent
	under int // way
	most  int // at once
	pings int
}

func newStore(takes time.Duration) *store {
	return &store{began: time.Now(), takes: func(sent) time.Duration { return takes }}
}

func (s *store) do(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	c := sent{op: op, ctx: ctx, at: time.Since(s.began)}
	for i := range reqs {
		c.keys = append(c.keys, reqs[i].Key.Value)
	}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.under++
	s.most = max(s.most, s.under)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.under--
		s.mu.Unlock()
	}()
	ctx, end := context.WithTimeout(ctx, limit)
	defer end()
	if d := s.takes(c); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if s.fails != nil {
		if err := s.fails(c); err != nil {
			return nil, err
		}
	}
	answers := make([]rmqdedup.Answer, len(reqs))
	for i := range reqs {
		answers[i] = answerFor(op, reqs[i].Key.Value)
	}
	return answers, nil
}

// all lets a coalescer make calls of several operations together.
func (s *store) all(config *Config) {
	config.DoAll = func(ctx context.Context, calls []Part) {
		seen := make(map[string]bool)
		took := time.Duration(0)
		for i := range calls {
			c := sent{op: calls[i].Op, ctx: ctx, at: time.Since(s.began)}
			for _, r := range calls[i].Requests {
				c.keys = append(c.keys, r.Key.Value)
			}
			for _, k := range c.keys {
				if seen[k] {
					calls[i].Err = fmt.Errorf("%s is there twice", k)
				}
			}
			for _, k := range c.keys {
				seen[k] = true
			}
			s.mu.Lock()
			s.calls = append(s.calls, c)
			s.mu.Unlock()
			took = max(took, s.takes(c))
			for _, k := range c.keys {
				calls[i].Answers = append(calls[i].Answers, answerFor(c.op, k))
			}
		}
		if took > 0 {
			<-time.After(took)
		}
	}
}

// answerFor is what a key is answered. Those that begin with "bad" fail by themselves.
func answerFor(op rmqdedup.Op, key string) rmqdedup.Answer {
	if len(key) > 3 && key[:3] == "bad" {
		return rmqdedup.Answer{Err: fmt.Errorf("%v of %s", op, key)}
	}
	return rmqdedup.Answer{Outcome: rmqdedup.InFlight, Left: time.Duration(op), Record: &rmqdedup.Record{MessageID: key}}
}

func (s *store) ping(context.Context) error {
	s.mu.Lock()
	s.pings++
	trip := s.trip
	s.mu.Unlock()
	<-time.After(trip)
	return nil
}

// sizes are the numbers of keys of the calls that were made, in their order.
func (s *store) sizes() (sizes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		sizes = append(sizes, len(c.keys))
	}
	return sizes
}

// with returns a coalescer of acquires and completes. It gathers, which is to make no difference where no call is made at the same moment.
func (s *store) with(change ...func(*Config)) *Coalescer {
	config := Config{
		Name: "the store", Ops: []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpComplete}, Do: s.do, Limit: limit, Gather: true,
		Window: func(roundTrip time.Duration) int { return Window(roundTrip, time.Millisecond, 16) },
	}
	for _, c := range change {
		c(&config)
	}
	return New(config)
}

func ungathered(config *Config) { config.Gather = false }

func requests(keys ...string) (reqs []rmqdedup.Request) {
	for _, k := range keys {
		reqs = append(reqs, rmqdedup.Request{Key: rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeGroup, "group", "", "", k)})
	}
	return reqs
}

func numbered(from, n int) (keys []string) {
	for i := range n {
		keys = append(keys, strconv.Itoa(from+i))
	}
	return keys
}

// must calls, and wants the answers that belong to the keys.
func must(ctx context.Context, t *testing.T, c *Coalescer, op rmqdedup.Op, keys ...string) {
	t.Helper()
	answers, err := c.Do(ctx, op, requests(keys...))
	if err != nil || len(answers) != len(keys) {
		t.Errorf("%v of %v: %d answers, error %v", op, keys, len(answers), err)
		return
	}
	for i, k := range keys {
		want := answerFor(op, k)
		switch a := answers[i]; {
		case want.Err != nil:
			if a.Err == nil || a.Err.Error() != want.Err.Error() {
				t.Errorf("%v of %s was answered %+v; want the error %v", op, k, a, want.Err)
			}
		case a.Record == nil || a.Record.MessageID != k || a.Left != want.Left:
			t.Errorf("%v of %s was answered %+v", op, k, a)
		}
	}
}

func equal(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}
