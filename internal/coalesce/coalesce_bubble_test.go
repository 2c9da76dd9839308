package coalesce

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

const trip = time.Millisecond

// rest lets that time pass, and what is due in it happen.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A call that meets no other is made as it is: at once, with its own context, by its own goroutine.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(trip)
		c := s.with()
		ctx := context.WithValue(t.Context(), s, "mine")
		for i := range 3 {
			must(ctx, t, c, rmqdedup.OpAcquire, strconv.Itoa(i))
			must(ctx, t, c, rmqdedup.OpComplete, strconv.Itoa(i))
		}
		equal(t, "keys a call", s.sizes(), 1, 1, 1, 1, 1, 1)
		for _, call := range s.calls {
			if call.ctx != ctx {
				t.Error("the context is not the caller's")
			}
		}
		if took := time.Since(s.began); took != 6*trip {
			t.Errorf("it took %v; want %v", took, 6*trip)
		}
		if c.background > 0 {
			t.Errorf("%d goroutines", c.background)
		}
	})
}

// Calls that come while one is under way go out together when it ends, those of one operation at a time.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(trip)
		c := s.with()
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "first")
		synctest.Wait()
		for i := range 10 {
			go must(t.Context(), t, c, rmqdedup.OpAcquire, numbered(10*i, 1+i%3)...)
			synctest.Wait()
			go must(t.Context(), t, c, rmqdedup.OpComplete, "bad-"+strconv.Itoa(i))
		}
		rest(10 * trip)
		equal(t, "keys a call", s.sizes(), 1, 19, 10)
		if s.most != 1 {
			t.Errorf("%d calls at once", s.most)
		}
		c.Close()
	})
}

// Goroutines that one moment wakes make their calls together where calls are gathered; otherwise the first goes ahead, and they wait for it.
func TestBurst(t *testing.T) {
	const bursts, size = 50, 10
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // another processor could run the first call's goroutine at once
	for _, gather := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(trip)
			c := s.with(func(config *Config) { config.Gather = gather })
			firstAlone := 0
			for range bursts {
				before := len(s.calls)
				moment := make(chan struct{})
				for i := range size {
					go func() {
						<-moment
						must(t.Context(), t, c, rmqdedup.OpAcquire, strconv.Itoa(i))
					}()
				}
				synctest.Wait()
				close(moment)
				rest(10 * trip)
				sizes := s.sizes()[before:]
				if sizes[0] == 1 {
					firstAlone++
				}
				if sum := sizes[0] + sizes[1%len(sizes)]*(len(sizes)-1); len(sizes) > 2 || sum != size {
					t.Errorf("calls of %v keys; want %d in one or two", sizes, size)
				}
			}
			c.Close()
			// Now and then Go's scheduler prefers a goroutine that has let others go first.
			if gather && firstAlone > bursts/2 || !gather && firstAlone < bursts {
				t.Errorf("gathered: %v; in %d of %d bursts the first call was alone", gather, firstAlone, bursts)
			}
		})
	}
}

// Where the store can make calls of several operations together they go together, but for those that have a key in common.
func TestAllOperationsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(trip)
		c := s.with(s.all)
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "first")
		synctest.Wait()
		for i := range 70 {
			go must(t.Context(), t, c, rmqdedup.OpAcquire, strconv.Itoa(i))
			go must(t.Context(), t, c, rmqdedup.OpComplete, strconv.Itoa(60+i))
		}
		rest(20 * trip)
		// Of the ten keys in common each goes in one of the first two.
		together, keys := 0, 0
		for _, call := range s.calls[1:] {
			keys += len(call.keys)
			if call.at == s.calls[1].at {
				together += len(call.keys)
			}
		}
		if keys != 140 || together < 2*MaxKeys-10 || together > 2*MaxKeys {
			t.Errorf("%d keys, %d of them together at first", keys, together)
		}
		if s.most != 1 {
			t.Errorf("%d calls at once", s.most)
		}
		c.Close()
	})
}

// No more than MaxKeys of an operation go together, a call with many goes by itself at once, and so does one of an operation that is not shared.
func TestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(trip)
		c := s.with()
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "first")
		synctest.Wait()
		for i := range 5 {
			go must(t.Context(), t, c, rmqdedup.OpAcquire, numbered(100*i, maxShare)...)
		}
		synctest.Wait()
		must(t.Context(), t, c, rmqdedup.OpAcquire, numbered(1000, maxShare+1)...)
		must(t.Context(), t, c, rmqdedup.OpRelease, "one")
		must(t.Context(), t, c, rmqdedup.OpAcquire)
		rest(10 * trip)
		sizes := s.sizes()
		slices.Sort(sizes)
		equal(t, "keys a call", sizes, 0, 1, 1, maxShare, maxShare+1, MaxKeys, MaxKeys)
		c.Close()
	})
}

// Two calls with a key in common are never one.
func TestSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(trip)
		c := s.with()
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "a")
		synctest.Wait()
		for _, keys := range [][]string{{"a"}, {"b", "c"}, {"c", "d"}, {"a"}, {"e"}, {"d", "f", "d"}} {
			go must(t.Context(), t, c, rmqdedup.OpAcquire, keys...)
			synctest.Wait()
		}
		rest(10 * trip)
		var got []string
		for _, call := range s.calls {
			got = append(got, call.keys...)
			got = append(got, "|")
		}
		if want := []string{"a", "|", "a", "b", "c", "e", "d", "f", "d", "|", "c", "d", "a", "|"}; !slices.Equal(got, want) {
			t.Errorf("calls %v; want %v", got, want)
		}
		c.Close()
	})
}

// Who gives up leaves the others alone. What was not sent is not sent.
func TestCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(4 * trip)
		c := s.with()
		cause := errors.New("given up")
		giveUp := func(after time.Duration, key string) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), after, cause)
			defer cancel()
			began := time.Now()
			_, err := c.Do(ctx, rmqdedup.OpAcquire, requests(key))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != after {
				t.Errorf("%s: error %v after %v; want it after %v", key, err, time.Since(began), after)
			}
		}
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "first")
		synctest.Wait()
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "stays")
		synctest.Wait()
		go giveUp(2*trip, "unsent")
		go giveUp(6*trip, "sent")
		rest(20 * trip)
		equal(t, "keys a call", s.sizes(), 1, 2)
		if call := s.calls[1]; slices.Contains(call.keys, "unsent") || !slices.Contains(call.keys, "sent") {
			t.Errorf("sent: %v", call.keys)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "again")
		synctest.Wait()
		if _, err := c.Do(ended, rmqdedup.OpAcquire, requests("never")); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		rest(20 * trip)
		c.Close()
	})
}

// An error of the call is everybody's, one of a request its own.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(trip)
		down := errors.New("down")
		s.fails = func(c sent) error {
			if len(c.keys) > 1 {
				return down
			}
			return nil
		}
		c := s.with()
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "first")
		synctest.Wait()
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if answers, err := c.Do(t.Context(), rmqdedup.OpAcquire, requests(strconv.Itoa(i))); !errors.Is(err, down) || answers != nil {
					t.Errorf("%v, error %v", answers, err)
				}
			})
		}
		wg.Wait()
		must(t.Context(), t, c, rmqdedup.OpAcquire, "bad-one") // and the next is none the worse
		c.Close()
	})
}

// A call that takes long holds up nobody for longer than patience, and when it has ended, one at a time is enough again.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(0)
		s.takes = func(c sent) time.Duration {
			if c.keys[0] == "locked" {
				return 500 * time.Millisecond
			}
			return trip
		}
		c := s.with()
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "locked")
		synctest.Wait()
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for j := range 10 {
					must(t.Context(), t, c, rmqdedup.OpAcquire, strconv.Itoa(100*i+j))
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > patience+25*trip {
			t.Errorf("ten rounds of twenty took %v beside one that takes long", took)
		}
		rest(time.Second)
		if c.extra != 0 || c.running != 0 {
			t.Errorf("%d more may be under way, and %d are", c.extra, c.running)
		}
		s.most = 0
		for i := range 20 {
			wg.Go(func() { must(t.Context(), t, c, rmqdedup.OpAcquire, strconv.Itoa(i)) })
		}
		wg.Wait()
		if s.most != 1 {
			t.Errorf("%d calls at once", s.most)
		}
		c.Close()
	})
}

// When the server hangs each caller waits for its time limit, and no longer.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(time.Hour)
		c := s.with()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 7 * trip)
				began := time.Now()
				_, err := c.Do(t.Context(), rmqdedup.OpAcquire, requests(strconv.Itoa(i)))
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > limit {
					t.Errorf("error %v after %v", err, took)
				}
			})
		}
		wg.Wait()
		c.Close()
		if time.Since(s.began) > 3*limit {
			t.Errorf("Close returned after %v", time.Since(s.began))
		}
	})
}

// A key that is known to be locked goes alone, for a while.
func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(trip)
		c := s.with()
		c.Apart(requests("locked")[0].Key, time.Minute)
		c.Apart(requests("other")[0].Key, time.Second)
		meet := func() {
			go must(t.Context(), t, c, rmqdedup.OpAcquire, "first")
			synctest.Wait()
			go must(t.Context(), t, c, rmqdedup.OpAcquire, "a")
			go must(t.Context(), t, c, rmqdedup.OpAcquire, "locked")
			go must(t.Context(), t, c, rmqdedup.OpAcquire, "b")
			rest(5 * trip)
		}
		meet()
		equal(t, "keys a call", s.sizes(), 1, 1, 2)
		time.Sleep(time.Minute)
		s.calls = nil
		meet()
		equal(t, "keys a call", s.sizes(), 1, 3)
		if len(c.apart) != 1 { // the other has not been asked for
			t.Errorf("%d keys are kept apart", len(c.apart))
		}
		c.Apart(requests("new")[0].Key, time.Second)
		if len(c.apart) != 1 {
			t.Errorf("%d keys are kept apart", len(c.apart))
		}
		c.Close()
	})
}

// Close returns when the goroutines have ended that serve others.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(10 * trip)
		c := s.with()
		c.Close()
		go must(t.Context(), t, c, rmqdedup.OpAcquire, "first")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 11*trip)
		defer cancel()
		if _, err := c.Do(ctx, rmqdedup.OpAcquire, requests("second")); err == nil {
			t.Error("it was answered too soon")
		}
		c.Close()
		if took := time.Since(s.began); took != 20*trip {
			t.Errorf("Close returned after %v; want it when the second call has ended, after %v", took, 20*trip)
		}
	})
}
