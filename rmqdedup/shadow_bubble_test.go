package rmqdedup_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// In shadow mode everything is claimed, counted and told, and every message reaches the handler.
func TestShadowSuppressesNothing(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode, Shadow: true})
				n.claimElsewhere(t, "busy", time.Hour, 0)
				var r runs
				by.deliver(n.Wrap(r.succeed()), orders("done")...)
				var claims []rmqdedup.Claim
				got := by.deliver(n.Wrap(r.then(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
					claims = rmqdedup.Claims(ctx)
					return consumer.ConsumeSuccess, nil
				})), orders("done", "busy", "1", "1")...)
				if got.result != consumer.ConsumeSuccess || got.level != 0 {
					t.Errorf("%s", describe(got))
				}
				r.want(t, "done, done busy 1 1")
				n.wantState(t, "1", rmqdedup.Done)
				n.wantState(t, "busy", rmqdedup.InFlight)
				for _, kind := range []rmqdedup.EventKind{rmqdedup.EventSuppressed, rmqdedup.EventInFlight, rmqdedup.EventRepeated} {
					if told := n.heard.of(kind); len(told) != 1 || !told[0].Shadow {
						t.Errorf("told as %v: %+v", kind, told)
					}
				}
				if last := n.heard.last(); last.Ran != 4 || last.Suppressed != 2 || last.InFlight != 1 {
					t.Errorf("the result is %+v", last)
				}
				if len(claims) != 4 || !claims[0].Owner.IsZero() || !claims[1].Owner.IsZero() || claims[2].Owner.IsZero() || claims[2] != claims[3] {
					t.Errorf("the claims are %+v", claims)
				}
			})
		})
	}
}

// The handler's answer is the client's, whatever it is; success and failure settle as always.
func TestShadowPassesAnswersOn(t *testing.T) {
	for _, by := range deliverers {
		for _, result := range []consumer.ConsumeResult{
			consumer.ConsumeSuccess, consumer.ConsumeRetryLater, consumer.Commit, consumer.Rollback, consumer.SuspendCurrentQueueAMoment,
		} {
			t.Run(by.mode.String()+" "+resultName(result), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{Mode: by.mode, Shadow: true})
					got := by.deliver(n.Wrap(answer(result, errBusiness)), order("1"))
					want := reply{result: result, err: errBusiness}
					if by.mode == rmqdedup.Ordered {
						want.suspend = -1
					}
					wantReply(t, got, want)
					state := rmqdedup.Absent
					if result == consumer.ConsumeSuccess || result == consumer.Commit && by.mode == rmqdedup.Ordered {
						state = rmqdedup.Done
					}
					n.wantState(t, "1", state)
				})
			})
		}
	}
}

func TestShadowPanic(t *testing.T) {
	for _, by := range deliverers {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Mode: by.mode, Shadow: true})
			got := by.deliver(n.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) { panic("boom") }), order("1"))
			var caught *rmqdedup.PanicError
			if got.result != by.retry || !errors.As(got.err, &caught) || by.mode == rmqdedup.Ordered && got.suspend != 1000 {
				t.Errorf("%v: %s, %v", by.mode, describe(got), got.err)
			}
			n.wantState(t, "1", rmqdedup.Absent)
		})
	}
}

// A store that is away holds nothing up, under either policy, nor do pending writes.
func TestShadowOutage(t *testing.T) {
	for _, policy := range []rmqdedup.OutagePolicy{rmqdedup.Closed, rmqdedup.Open} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Shadow: true, Outage: policy, MaxPendingWrites: 1})
			n.set(away)
			var r runs
			begin := time.Now()
			for _, id := range []string{"1", "2", "3"} {
				wantReply(t, concurrently(n.Wrap(r.succeed()), order(id)), acknowledged)
			}
			if time.Since(begin) != 0 {
				t.Errorf("held for %v", time.Since(begin))
			}
			r.want(t, "1, 2, 3")
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventUnprotected: 3})
			n.set(nil)
			time.Sleep(10 * time.Second)
			n.wantState(t, "3", rmqdedup.Done)
		})
	}
}

// Pending writes at their bound are no outage.
func TestShadowPendingBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Shadow: true, MaxPendingWrites: 1})
		n.set(only(away, rmqdedup.OpComplete))
		for _, id := range []string{"1", "2", "3"} {
			wantReply(t, concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order(id)), acknowledged)
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventUnprotected: 0, rmqdedup.EventWritePending: 3})
	})
}

// A claim that is lost is told; the handler is left alone, as it would be without the wrapper.
func TestShadowLostClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Shadow: true})
		n.set(only(away, rmqdedup.OpRenew))
		wantReply(t, concurrently(n.Wrap(working(5*time.Minute)), order("1")), acknowledged)
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 1})
		n.wantState(t, "1", rmqdedup.Done)
	})
}

func TestShadowDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Shadow: true})
		h, started, letGo := blocked()
		got := later(func() reply { return concurrently(n.Wrap(h), order("1")) })
		<-started
		down := make(chan error, 1)
		go func() { down <- shutdown(n, time.Hour, func() error { return nil }) }()
		synctest.Wait()
		var r runs
		late := later(func() reply { return concurrently(n.Wrap(r.succeed()), order("2")) })
		time.Sleep(time.Minute)
		if answered(late) || len(down) > 0 {
			t.Error("Shutdown does not wait, or the new delivery is answered")
		}
		letGo()
		wantReply(t, <-got, acknowledged)
		if err := <-down; err != nil {
			t.Error(err)
		}
		wantReply(t, <-late, sentBack)
		r.want(t, "")
		n.wantState(t, "1", rmqdedup.Done)
	})
}

// The drain begins while the claims are still being acquired: they are given back, and the delivery held.
func TestShadowDrainsBeforeTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Shadow: true})
		n.set(only(slow(10*time.Second), rmqdedup.OpAcquire))
		var r runs
		got := later(func() reply { return concurrently(n.Wrap(r.succeed()), order("1")) })
		time.Sleep(time.Second)
		if err := shutdown(n, time.Hour, func() error { return nil }); err != nil {
			t.Error(err)
		}
		wantReply(t, <-got, sentBack)
		r.want(t, "")
		n.wantState(t, "1", rmqdedup.Absent)
	})
}

// At the drain's deadline the handler is left alone as well: it does not know of the wrapper.
func TestShadowIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Shadow: true})
		got := later(func() reply { return concurrently(n.Wrap(working(10*time.Second)), order("1")) })
		synctest.Wait()
		if err := shutdown(n, time.Second, func() error { return nil }); err == nil {
			t.Error("Shutdown does not tell of the handler")
		}
		wantReply(t, <-got, acknowledged)
		n.wantState(t, "1", rmqdedup.Done)
	})
}

func TestShadowGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Shadow: true})
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			concurrently(n.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				runtime.Goexit()
				return consumer.ConsumeSuccess, nil
			}), order("1"))
		}()
		<-gone
		n.wantState(t, "1", rmqdedup.Absent)
	})
}
