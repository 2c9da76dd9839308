package coalesce

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

func TestWindow(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		roundTrip, step time.Duration
		most, want      int
	}{
		{0, 50 * us, 16, 1}, {49 * us, 50 * us, 16, 1}, {100 * us, 50 * us, 16, 2}, {time.Hour, 50 * us, 16, 16}, {time.Hour, 50 * us, 0, 1},
	} {
		if got := Window(c.roundTrip, c.step, c.most); got != c.want {
			t.Errorf("Window(%v, %v, %d) = %d; want %d", c.roundTrip, c.step, c.most, got, c.want)
		}
	}
}

// crowd has so many goroutines make calls until the time is over, and returns how many calls were made.
func crowd(t *testing.T, c *Coalescer, n int, d time.Duration) (calls int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			for j := 0; time.Since(began) < d; j++ {
				must(t.Context(), t, c, rmqdedup.OpAcquire, strconv.Itoa(1_000_000*i+j))
				mu.Lock()
				calls++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return calls
}

// Over a long way as many calls are under way as there would be without a coalescer, up to the window. This server, whom it costs nothing to
// serve any number at once, is the worst case for more goroutines than that.
func TestLongWay(t *testing.T) {
	for _, n := range []int{1, 2, 8, 16, 64} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(10 * time.Millisecond)
			s.trip = 10 * time.Millisecond
			c := s.with(func(config *Config) { config.Ping = s.ping })
			must(t.Context(), t, c, rmqdedup.OpAcquire, "the first")
			time.Sleep(time.Second) // the way is known now
			alone := n * 100
			least := alone * 9 / 10
			if n > 16 {
				least = alone * 3 / 4
			}
			if got := crowd(t, c, n, time.Second); got < least {
				t.Errorf("%d goroutines made %d calls a second; alone it would be %d", n, got, alone)
			}
			if s.most > 16 {
				t.Errorf("%d calls at once", s.most)
			}
			c.Close()
		})
	}
}

// The way is measured now and then, and the shortest measurement of a minute counts.
func TestWayChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(200 * time.Millisecond)
		fails := false
		c := s.with(func(config *Config) {
			config.Ping = func(ctx context.Context) error {
				if fails {
					return errors.New("no")
				}
				return s.ping(ctx)
			}
		})
		window := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.window
		}
		for _, step := range []struct {
			trip  time.Duration
			fails bool
			after time.Duration
			want  int
		}{
			{trip: 0, after: time.Second, want: 1},
			{trip: 5 * time.Millisecond, after: 30 * time.Second, want: 1}, // a busy moment, perhaps
			{trip: 5 * time.Millisecond, after: 60 * time.Second, want: 5}, // no
			{fails: true, after: 60 * time.Second, want: 5},
			{trip: time.Millisecond, after: 20 * time.Second, want: 1},
		} {
			s.trip, fails = step.trip, step.fails
			crowd(t, c, 2, step.after)
			if got := window(); got != step.want {
				t.Errorf("%v of a round trip of %v (fails: %v): a window of %d; want %d", step.after, step.trip, step.fails, got, step.want)
			}
		}
		if most := pings * int(time.Since(s.began)/probeEvery+2); s.pings > most {
			t.Errorf("%d pings; want at most %d", s.pings, most)
		}
		c.Close()
	})
}
