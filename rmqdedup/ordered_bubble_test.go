package rmqdedup_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

var inOrder = rmqdedup.Config{Mode: rmqdedup.Ordered}

// A is in flight elsewhere, B is new: B waits behind A, which is waited for inside the listener, then the queue pauses.
func TestCase19OrderedQueueWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, inOrder)
		h, started, letGo := blocked()
		elsewhere := later(func() reply { return orderly(n.another(t, inOrder).Wrap(h), order("a")) })
		<-started
		var r runs
		listen := n.Wrap(r.succeed())
		begin := time.Now()
		wantReply(t, orderly(listen, orders("a", "b")...), suspended)
		if waited := time.Since(begin); waited != 66*time.Second {
			t.Errorf("waited for %v, want the lease and a tenth", waited)
		}
		r.want(t, "")
		n.wantState(t, "b", rmqdedup.Absent)
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventInFlight: 1})

		// The next time A ends while it is waited for, and B runs after it.
		waiting := later(func() reply { return orderly(listen, order("a", attempt(1)), order("b", attempt(1))) })
		time.Sleep(30 * time.Second)
		if answered(waiting) {
			t.Fatal("answered while A was in flight")
		}
		r.want(t, "")
		letGo()
		wantReply(t, <-elsewhere, orderlyDone)
		wantReply(t, <-waiting, orderlyDone)
		r.want(t, "b")
		if last := n.heard.last(); last.Suppressed != 1 || last.Ran != 1 || last.InFlight != 1 {
			t.Errorf("the result is %+v", last)
		}
	})
}

// If A fails elsewhere, it runs here, before B.
func TestCase19OrderedIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, inOrder)
		a := n.claimElsewhere(t, "a", 50*time.Second, 0)
		var r runs
		waiting := later(func() reply { return orderly(n.Wrap(r.succeed()), orders("a", "b")...) })
		time.Sleep(20 * time.Second)
		n.applyElsewhere(t, rmqdedup.OpRelease, a)
		wantReply(t, <-waiting, orderlyDone)
		r.want(t, "a b")
	})
}

// A dead owner's claim is outlasted inside the listener: no attempt is spent.
func TestOrderedOutlastsADeadOwner(t *testing.T) {
	for name, grace := range map[string]time.Duration{"without grace": 0, "with grace": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, inOrder)
				n.claimElsewhere(t, "a", time.Minute, grace)
				var r runs
				begin := time.Now()
				wantReply(t, orderly(n.Wrap(r.succeed()), orders("a", "b")...), orderlyDone)
				if waited := time.Since(begin); waited < time.Minute || waited > 62*time.Second {
					t.Errorf("ran after %v", waited)
				}
				r.want(t, "a b")
			})
		})
	}
}

func TestInFlightWaitIsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Mode: rmqdedup.Ordered, InFlightWait: 3 * time.Second, SuspendPause: 200 * time.Millisecond})
		n.claimElsewhere(t, "a", time.Hour, 0)
		begin := time.Now()
		wantReply(t, orderly(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("a")), reply{result: consumer.SuspendCurrentQueueAMoment, suspend: 200})
		if waited := time.Since(begin); waited != 3*time.Second {
			t.Errorf("waited for %v", waited)
		}
	})
}

// Each message in flight has a wait of its own.
func TestOrderedWaitBeginsAnewForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, inOrder)
		a := n.claimElsewhere(t, "a", time.Hour, 0)
		c := n.claimElsewhere(t, "c", time.Hour, 0)
		var r runs
		waiting := later(func() reply { return orderly(n.Wrap(r.succeed()), orders("a", "b", "c", "d")...) })
		time.Sleep(60 * time.Second)
		n.applyElsewhere(t, rmqdedup.OpComplete, a)
		time.Sleep(60 * time.Second)
		r.want(t, "b")
		n.applyElsewhere(t, rmqdedup.OpComplete, c)
		wantReply(t, <-waiting, orderlyDone)
		r.want(t, "b, d")
	})
}

// Only what stands before the first message that is in flight runs; claims behind it are given back unrun, fresh ones released, takeovers
// abandoned, and each kind in one call of the store.
func TestOrderedGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, inOrder)
		var r runs
		orderly(n.Wrap(r.succeed()), order("done"))
		n.claimElsewhere(t, "busy", time.Hour, 0)
		n.claimElsewhere(t, "orphan", time.Second, time.Hour)
		n.claimElsewhere(t, "orphan2", time.Second, time.Hour)
		time.Sleep(2 * time.Second)
		listen := n.Wrap(r.succeed())
		waiting := later(func() reply {
			return orderly(listen, orders("1", "done", "busy", "2", "orphan", "3", "orphan2")...)
		})
		time.Sleep(10 * time.Second)
		if answered(waiting) {
			t.Fatal("answered already")
		}
		r.want(t, "done, 1")
		n.wantState(t, "1", rmqdedup.Done)
		n.wantState(t, "2", rmqdedup.Absent)
		n.wantState(t, "3", rmqdedup.Absent)
		if released, abandoned := n.callsOf(rmqdedup.OpRelease), n.callsOf(rmqdedup.OpAbandon); len(released) != 1 || len(released[0]) != 2 ||
			len(abandoned) != 1 || len(abandoned[0]) != 2 {
			t.Errorf("given back in calls of release %v and abandon %v", released, abandoned)
		}
		wantReply(t, <-waiting, suspended)
		r.want(t, "done, 1")
		// Whoever delivers what stood behind finds it as it was.
		wantReply(t, orderly(listen, orders("orphan", "2")...), orderlyDone)
		r.want(t, "done, 1, orphan 2")
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventTakenOver: 2})
	})
}

// What cannot be claimed holds up the queue; what stands behind it is neither run nor kept.
func TestOrderedUnreachableInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, inOrder)
		n.set(awayFor("2"))
		var r runs
		waiting := later(func() reply { return orderly(n.Wrap(r.succeed()), orders("1", "2", "3")...) })
		time.Sleep(time.Hour)
		if answered(waiting) {
			t.Fatal("answered while the store was away")
		}
		r.want(t, "1")
		n.wantState(t, "3", rmqdedup.Absent)
		n.set(nil)
		wantReply(t, <-waiting, orderlyDone)
		r.want(t, "1, 2 3")
		if last := n.heard.last(); last.Ran != 3 || last.Unreachable != 1 {
			t.Errorf("the result is %+v", last)
		}
	})
}

// A failure in front suspends the queue at once, whatever stands behind.
func TestOrderedFailureInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, inOrder)
		n.claimElsewhere(t, "busy", time.Hour, 0)
		var r runs
		begin := time.Now()
		wantReply(t, orderly(n.Wrap(r.failing("2")), orders("1", "2", "busy", "3")...), suspended)
		if time.Since(begin) != 0 {
			t.Errorf("waited for %v", time.Since(begin))
		}
		r.want(t, "1 2")
		for _, id := range []string{"1", "2", "3"} {
			n.wantState(t, id, rmqdedup.Absent)
		}
	})
}

// A queue with a failing message: it is tried again and again, and nothing behind it runs before it.
func TestOrderedQueueFlowsAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, inOrder)
		var r runs
		for i := range int32(3) {
			wantReply(t, orderly(n.Wrap(r.fail()), order("1", attempt(i))), reply{result: consumer.SuspendCurrentQueueAMoment, suspend: 1000, err: errBusiness})
		}
		listen := n.Wrap(r.succeed())
		wantReply(t, orderly(listen, order("1", attempt(3))), orderlyDone)
		wantReply(t, orderly(listen, order("2")), orderlyDone)
		r.want(t, "1, 1, 1, 1, 2")
	})
}

// An ordered delivery may run its messages in several calls; an error of an earlier one is not forgotten.
func TestErrorOfAnEarlierCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, inOrder)
		busy := n.claimElsewhere(t, "busy", time.Hour, 0)
		var r runs
		first := true
		waiting := later(func() reply {
			return orderly(n.Wrap(r.then(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				if first {
					first = false
					return consumer.ConsumeSuccess, errBusiness
				}
				return consumer.ConsumeSuccess, nil
			})), orders("1", "busy", "2")...)
		})
		time.Sleep(time.Second)
		n.applyElsewhere(t, rmqdedup.OpComplete, busy)
		wantReply(t, <-waiting, reply{result: consumer.ConsumeSuccess, suspend: -1, err: errBusiness})
		r.want(t, "1, 2")
	})
}
