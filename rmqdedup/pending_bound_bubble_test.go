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

// At the bound a new delivery meets "store unreachable, policy closed".
func TestPendingBoundClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{MaxPendingWrites: 2})
		n.set(only(away, rmqdedup.OpComplete))
		var r runs
		listen := n.Wrap(r.succeed())
		wantReply(t, concurrently(listen, order("1")), acknowledged)
		wantReply(t, concurrently(listen, order("2")), acknowledged)
		acquired := len(n.callsOf(rmqdedup.OpAcquire))
		got := later(func() reply { return concurrently(listen, order("3")) })
		time.Sleep(time.Minute)
		if answered(got) || len(n.callsOf(rmqdedup.OpAcquire)) != acquired {
			t.Fatal("the bound does not hold")
		}
		if told := n.heard.of(rmqdedup.EventHeld); len(told) != 1 || !errors.Is(told[0].Err, rmqdedup.ErrPendingFull) {
			t.Errorf("told %+v", told)
		}
		r.want(t, "1, 2")
		n.set(nil)
		wantReply(t, <-got, acknowledged)
		r.want(t, "1, 2, 3")
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWriteDropped: 0, rmqdedup.EventWriteLanded: 2})
	})
}

// What is under way when the bound is reached is still written: nothing that a handler did is dropped under the closed policy.
func TestPendingBoundClosedDropsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{MaxPendingWrites: 1})
		n.set(only(away, rmqdedup.OpComplete))
		wantReply(t, concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), orders("1", "2", "3")...), acknowledged)
		n.set(nil)
		time.Sleep(10 * time.Second)
		for _, id := range []string{"1", "2", "3"} {
			n.wantState(t, id, rmqdedup.Done)
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWriteDropped: 0})
	})
}

// Under the open policy the handler runs at the bound, and the oldest pending write is dropped and counted.
func TestPendingBoundOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{MaxPendingWrites: 2, Outage: rmqdedup.Open})
		n.set(only(away, rmqdedup.OpComplete))
		var r runs
		listen := n.Wrap(r.succeed())
		for i := range 4 {
			wantReply(t, concurrently(listen, order(fmt.Sprint(i))), acknowledged)
		}
		r.want(t, "0, 1, 2, 3")
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventUnprotected: 0}) // the store takes claims, and so protects
		dropped := n.heard.of(rmqdedup.EventWriteDropped)
		if len(dropped) != 2 || dropped[0].Key.Value != "0" || dropped[1].Key.Value != "1" || dropped[0].Op != rmqdedup.OpComplete ||
			!errors.Is(dropped[0].Err, rmqdedup.ErrPendingFull) {
			t.Errorf("dropped %+v", dropped)
		}
		n.set(nil)
		time.Sleep(10 * time.Second)
		n.wantState(t, "2", rmqdedup.Done)
		n.wantState(t, "3", rmqdedup.Done)
		// The claims of what was dropped are not renewed: they end, and their messages may run again.
		time.Sleep(time.Minute)
		n.wantState(t, "0", rmqdedup.Absent)
		n.wantState(t, "1", rmqdedup.Absent)
	})
}

// At the bound an abandonment is not worth a place: the lease ends the claim as well.
func TestPendingBoundAbandon(t *testing.T) {
	for _, policy := range []rmqdedup.OutagePolicy{rmqdedup.Closed, rmqdedup.Open} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{MaxPendingWrites: 1, Outage: policy})
			n.set(away)
			if policy == rmqdedup.Closed { // one completion is pending
				n.set(only(away, rmqdedup.OpComplete))
				concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1"))
			} else {
				concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1"))
				concurrently(n.Wrap(answer(consumer.ConsumeRetryLater, nil)), order("2"))
			}
			n.set(nil)
			time.Sleep(10 * time.Second)
			n.wantState(t, "1", rmqdedup.Done)
			dropped := n.heard.of(rmqdedup.EventWriteDropped)
			for _, e := range dropped {
				if e.Op != rmqdedup.OpAbandon {
					t.Errorf("policy %v: dropped %v of %v", policy, e.Op, e.Key)
				}
			}
		})
	}
}
