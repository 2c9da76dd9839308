package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// In a bubble time is the bubble's: an hour's lease runs out in no time, at its deadline and no sooner.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, memory.Config{})
		q, other := request("order-17"), request("order-17")
		q.Lease, other.Lease, q.Grace = time.Hour, time.Hour, time.Minute
		outcomes(t, s, rmqdedup.OpAcquire, q)
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{time.Hour - 1, "in flight"}, {1, "orphan"}, {time.Minute - 1, "orphan"}, {1, "absent"}} {
			time.Sleep(step.wait)
			if got := outcomes(t, s, rmqdedup.OpLookup, q); got != step.want {
				t.Errorf("%v later: %s; want %s", step.wait, got, step.want)
			}
		}
		if got := outcomes(t, s, rmqdedup.OpAcquire, other); got != "claimed" {
			t.Error(got)
		}
	})
}

// What is past its time goes as other operations go on, so that a store with traffic does not grow with what it has
// seen.
func TestExpiredRecordsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, memory.Config{})
		const perSecond, seconds = 100, 200
		most := 0
		for second := range seconds {
			for i := range perSecond {
				q := request(fmt.Sprint(second, " ", i))
				q.Lease, q.Grace, q.Retention = 2*time.Second, 3*time.Second, 10*time.Second
				outcomes(t, s, rmqdedup.OpAcquire, q)
				if i%2 == 0 {
					outcomes(t, s, rmqdedup.OpComplete, q)
				}
			}
			most = max(most, s.Len())
			time.Sleep(time.Second)
		}
		// A half of them is DONE for ten seconds, the other lives for five.
		if bound := perSecond * 11; most > bound {
			t.Errorf("%d records at most; want no more than %d, those within their time and a second", most, bound)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	})
}
