package rmqdedup_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Success whose DONE cannot be written is acknowledged; the write is tried again in the background, and its claim renewed meanwhile.
func TestDoneIsWrittenLater(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode})
				n.set(only(away, rmqdedup.OpComplete))
				var r runs
				begin := time.Now()
				if got := by.deliver(n.Wrap(r.succeed()), orders("1", "2")...); got.result != consumer.ConsumeSuccess || time.Since(begin) != 0 {
					t.Errorf("%s after %v", describe(got), time.Since(begin))
				}
				// For much longer than the lease a duplicate finds it in flight.
				time.Sleep(10 * time.Minute)
				n.wantState(t, "1", rmqdedup.InFlight)
				n.wantState(t, "2", rmqdedup.InFlight)
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWritePending: 2, rmqdedup.EventWriteLanded: 0, rmqdedup.EventClaimLost: 0})
				if told := n.heard.of(rmqdedup.EventWritePending)[0]; told.Op != rmqdedup.OpComplete || !errors.Is(told.Err, errAway) || told.Owner.IsZero() {
					t.Errorf("told %+v", told)
				}
				n.set(nil)
				time.Sleep(6 * time.Second)
				n.wantState(t, "1", rmqdedup.Done)
				n.wantState(t, "2", rmqdedup.Done)
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWritePending: 2, rmqdedup.EventWriteLanded: 2, rmqdedup.EventClaimLost: 0})
				// And nothing is renewed any more.
				renewals := len(n.callsOf(rmqdedup.OpRenew))
				time.Sleep(10 * time.Minute)
				if more := len(n.callsOf(rmqdedup.OpRenew)) - renewals; more > 0 {
					t.Errorf("renewed %d times after DONE", more)
				}
				r.want(t, "1 2")
			})
		})
	}
}

// The answer of the write was lost, so that it is done twice: once is all that is seen.
func TestLostReplyOfDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(firstTimes(1, replyLost), rmqdedup.OpComplete))
		wantReply(t, concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1")), acknowledged)
		done := n.wantState(t, "1", rmqdedup.Done)
		time.Sleep(time.Minute)
		if again := n.wantState(t, "1", rmqdedup.Done); !again.Record.Until.Equal(done.Record.Until) {
			t.Error("DONE was made anew")
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWriteLanded: 1, rmqdedup.EventClaimLost: 0})
	})
}

// A completion that lands after somebody else took the key over is DONE all the same, and a lost claim.
func TestDoneLandsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(away, rmqdedup.OpComplete))
		wantReply(t, concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1")), acknowledged)
		n.table.Age(keyOf("1"), time.Hour)
		n.claimElsewhere(t, "1", time.Hour, 0)
		n.set(nil)
		time.Sleep(5 * time.Second) // before the next renewal would notice
		n.wantState(t, "1", rmqdedup.Done)
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWriteLanded: 1, rmqdedup.EventClaimLost: 1})
	})
}

// A failed release is tried again too, but its claim is not renewed: the redelivery is to run, whether the release lands or not.
func TestReleaseIsWrittenLater(t *testing.T) {
	t.Run("lands", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			n.set(only(away, rmqdedup.OpRelease))
			var r runs
			wantReply(t, concurrently(n.Wrap(r.fail()), order("1")), reply{result: consumer.ConsumeRetryLater, err: errBusiness})
			n.wantState(t, "1", rmqdedup.InFlight)
			n.set(nil)
			time.Sleep(time.Second)
			n.wantState(t, "1", rmqdedup.Absent)
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWritePending: 1, rmqdedup.EventWriteLanded: 1})
		})
	})
	t.Run("does not land", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			n.set(only(away, rmqdedup.OpRelease))
			var r runs
			concurrently(n.Wrap(r.fail()), order("1"))
			time.Sleep(time.Minute)
			wantReply(t, concurrently(n.Wrap(r.succeed()), order("1", attempt(1))), acknowledged)
			r.want(t, "1, 1")
			if renewed := n.callsOf(rmqdedup.OpRenew); len(renewed) > 0 {
				t.Errorf("renewed %v", renewed)
			}
			// When it lands at last, it finds another owner's DONE, and leaves it.
			n.set(nil)
			time.Sleep(10 * time.Second)
			n.wantState(t, "1", rmqdedup.Done)
		})
	})
	t.Run("a local rerun before it lands", func(t *testing.T) {
		// The rerun's claim has an owner of its own, so that the release that is still on its way does not take it.
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{MaxReconsumeTimes: 1})
			n.set(only(away, rmqdedup.OpRelease))
			concurrently(n.Wrap(answer(consumer.ConsumeRetryLater, nil)), order("1"))
			time.Sleep(5 * time.Second)
			h, started, letGo := blocked()
			got := later(func() reply { return concurrently(n.Wrap(h), order("1", attempt(1))) })
			<-started
			n.set(nil)
			time.Sleep(10 * time.Second)
			n.wantState(t, "1", rmqdedup.InFlight)
			letGo()
			wantReply(t, <-got, acknowledged)
		})
	})
}

// Many pending writes are tried in batches, and what lands leaves the others alone.
func TestPendingInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(away, rmqdedup.OpComplete, rmqdedup.OpRelease))
		for i := range 200 {
			h := answer(consumer.ConsumeSuccess, nil)
			if i%2 == 1 {
				h = answer(consumer.ConsumeRetryLater, nil)
			}
			concurrently(n.Wrap(h), order(fmt.Sprint(i)))
		}
		calls := len(n.callsOf(rmqdedup.OpComplete)) + len(n.callsOf(rmqdedup.OpRelease))
		n.set(only(awayFor("0", "1"), rmqdedup.OpComplete, rmqdedup.OpRelease))
		time.Sleep(15 * time.Second)
		if calls = len(n.callsOf(rmqdedup.OpComplete)) + len(n.callsOf(rmqdedup.OpRelease)) - calls; calls > 20 {
			t.Errorf("%d calls for 200 writes", calls)
		}
		for i := range 200 {
			want := rmqdedup.Done
			switch {
			case i < 2:
				want = rmqdedup.InFlight
			case i%2 == 1:
				want = rmqdedup.Absent
			}
			n.wantState(t, fmt.Sprint(i), want)
		}
		n.set(nil)
		time.Sleep(6 * time.Second)
		n.wantState(t, "0", rmqdedup.Done)
		n.wantState(t, "1", rmqdedup.Absent)
	})
}

// The claim of a pending write may be lost; the write goes on, and DONE is what remains.
func TestPendingOutlivesItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(away, rmqdedup.OpComplete, rmqdedup.OpRenew))
		var r runs
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), acknowledged)
		time.Sleep(2 * time.Minute)
		lost := n.heard.of(rmqdedup.EventClaimLost)
		if len(lost) != 1 || !errors.Is(lost[0].Err, rmqdedup.ErrLeasePassed) {
			t.Errorf("lost %+v", lost)
		}
		n.set(nil)
		time.Sleep(6 * time.Second)
		n.wantState(t, "1", rmqdedup.Done)
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 1, rmqdedup.EventWriteLanded: 1})
	})
}
