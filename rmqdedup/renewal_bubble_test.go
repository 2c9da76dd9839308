package rmqdedup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// working is a handler that takes its time, and stops when its context is cancelled.
func working(d time.Duration) rmqdedup.Handler {
	return func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return consumer.ConsumeSuccess, nil
		case <-ctx.Done():
			return consumer.ConsumeRetryLater, context.Cause(ctx)
		}
	}
}

// A claim is renewed every third of its lease, from its acquire on until it is settled.
func TestRenewedEveryThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Lease: 30 * time.Second})
		begin := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		n.set(only(func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			mu.Lock()
			at = append(at, time.Since(begin))
			mu.Unlock()
			return rmqdedup.Do(ctx, next, op, reqs)
		}, rmqdedup.OpRenew))
		wantReply(t, concurrently(n.Wrap(working(45*time.Second)), order("1")), acknowledged)
		time.Sleep(time.Hour)
		if want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second}; fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("renewed at %v, want %v", at, want)
		}
		for _, call := range n.callsOf(rmqdedup.OpRenew) {
			if len(call) != 1 || call[0].Lease != 30*time.Second || call[0].Owner != n.callsOf(rmqdedup.OpAcquire)[0][0].Owner {
				t.Errorf("renewed %+v", call)
			}
		}
	})
}

// A handler that takes three times its lease never runs beside a duplicate, which is delivered all the time.
func TestLongHandlerDoesNotOverlap(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := rmqdedup.Config{Mode: by.mode, Lease: 3 * time.Second}
				n := newNode(t, cfg)
				var r runs
				first := later(func() reply { return by.deliver(n.Wrap(r.then(working(9*time.Second))), order("1")) })
				other := n.another(t, cfg)
				stop := time.Now().Add(8900 * time.Millisecond)
				for time.Now().Before(stop) {
					time.Sleep(70 * time.Millisecond)
					duplicate := later(func() reply { return by.deliver(other.Wrap(r.succeed()), order("1")) })
					if by.mode == rmqdedup.Concurrent {
						if got := <-duplicate; got.result != consumer.ConsumeRetryLater {
							t.Fatalf("a duplicate is answered %s", describe(got))
						}
					}
				}
				if got := <-first; got.result != consumer.ConsumeSuccess {
					t.Errorf("%s, %v", describe(got), got.err)
				}
				r.want(t, "1")
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 0})
			})
		})
	}
}

// Two renewals in a row may fail.
func TestRenewalSurvivesTwoFailures(t *testing.T) {
	for name, rule := range map[string]rmqdedup.Interceptor{"fails": away, "reply lost": replyLost, "for this key": awayFor("1")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{})
				n.set(only(firstTimes(2, rule), rmqdedup.OpRenew))
				wantReply(t, concurrently(n.Wrap(working(3*time.Minute)), order("1")), acknowledged)
				n.wantState(t, "1", rmqdedup.Done)
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventStoreError: 2, rmqdedup.EventClaimLost: 0})
				if told := n.heard.of(rmqdedup.EventStoreError)[0]; told.Op != rmqdedup.OpRenew || !errors.Is(told.Err, errAway) {
					t.Errorf("told %+v", told)
				}
			})
		})
	}
}

// Without renewal the lease is all that a handler has.
func TestNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{NoRenewal: true})
		wantReply(t, concurrently(n.Wrap(working(599*time.Second)), order("1")), acknowledged)
		begin := time.Now()
		var cause error
		concurrently(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return consumer.ConsumeRetryLater, nil
		}), order("2"))
		if took := time.Since(begin); took != 10*time.Minute || !errors.Is(cause, rmqdedup.ErrLeasePassed) {
			t.Errorf("cancelled after %v with %v", took, cause)
		}
		if renewed := n.callsOf(rmqdedup.OpRenew); len(renewed) > 0 {
			t.Errorf("renewed %v", renewed)
		}
	})
}

// Claims that are due at about the same time share a renewal, and a renewal that hangs does not hold up the others.
func TestRenewalsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		var wait sync.WaitGroup
		const deliveries = 300
		for i := range deliveries {
			wait.Go(func() {
				wantReply(t, concurrently(n.Wrap(working(25*time.Second)), order(fmt.Sprint(i))), acknowledged)
			})
		}
		wait.Wait()
		calls := n.callsOf(rmqdedup.OpRenew)
		keys := 0
		for _, c := range calls {
			keys += len(c)
			if len(c) > 256 {
				t.Errorf("a renewal of %d keys", len(c))
			}
		}
		if len(calls) != 2 || keys != deliveries {
			t.Errorf("%d keys were renewed in %d calls", keys, len(calls))
		}
	})
}

func TestHangingRenewalDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		// The part of the store that has three of the orders hangs for as long as one waits for it.
		n.set(only(func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			for _, r := range reqs {
				if r.Key.Value != "healthy" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			}
			return rmqdedup.Do(ctx, next, op, reqs)
		}, rmqdedup.OpRenew))
		var hanging []<-chan reply
		for _, id := range []string{"1", "2", "3"} {
			hanging = append(hanging, later(func() reply { return concurrently(n.Wrap(working(3*time.Minute)), order(id)) }))
			time.Sleep(5 * time.Second)
		}
		wantReply(t, concurrently(n.Wrap(working(3*time.Minute)), order("healthy")), acknowledged)
		for i, c := range hanging {
			if got := <-c; got.result != consumer.ConsumeRetryLater {
				t.Errorf("order %d: %s", i+1, describe(got))
			}
		}
	})
}

// While DONE is being written a renewal may find the claim gone, since it has become DONE: that is no loss.
func TestRenewalBesideDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(slow(50*time.Second), rmqdedup.OpComplete))
		wantReply(t, concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1")), acknowledged)
		if renewed := n.callsOf(rmqdedup.OpRenew); len(renewed) == 0 {
			t.Error("the claim was not renewed while DONE was written")
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 0})
	})
}

// A store that takes its time over DONE, and does not get to it: the claim is renewed meanwhile.
func TestRenewalWhileDoneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(func(context.Context, rmqdedup.Store, rmqdedup.Op, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
			time.Sleep(5 * time.Minute)
			return nil, errAway
		}, rmqdedup.OpComplete))
		got := later(func() reply { return concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1")) })
		time.Sleep(4 * time.Minute)
		n.wantState(t, "1", rmqdedup.InFlight)
		wantReply(t, <-got, acknowledged)
		n.set(nil)
		time.Sleep(10 * time.Second)
		n.wantState(t, "1", rmqdedup.Done)
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 0})
	})
}
