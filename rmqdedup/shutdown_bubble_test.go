package rmqdedup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// aConsumer is a consumer to be shut down.
type aConsumer func() error

func (f aConsumer) Shutdown() error { return f() }

// noting returns a consumer that notes when it is shut down.
func noting(at *time.Time) aConsumer {
	return func() error {
		*at = time.Now()
		return nil
	}
}

func shutdown(n *node, timeout time.Duration, c aConsumer) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return n.Shutdown(ctx, c)
}

// Case 24: closing in mid-handler. The handler is waited for, its answer reaches the client, and DONE the store, before the consumer is shut down
// and Shutdown returns.
func TestCase24CloseInMidHandler(t *testing.T) {
	for _, by := range deliverers {
		for _, result := range []consumer.ConsumeResult{consumer.ConsumeSuccess, consumer.ConsumeRetryLater} {
			t.Run(by.mode.String()+" "+resultName(result), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{Mode: by.mode})
					var ended time.Time
					got := later(func() reply {
						got := by.deliver(n.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
							time.Sleep(3 * time.Minute) // longer than the lease
							return result, nil
						}), order("1"))
						ended = time.Now()
						return got
					})
					synctest.Wait()
					state := rmqdedup.Done
					want := consumer.ConsumeSuccess
					if result != consumer.ConsumeSuccess {
						state, want = rmqdedup.Absent, by.retry
					}
					err := shutdown(n, 10*time.Minute, func() error {
						if !answered(got) {
							t.Error("the consumer is shut down before the answer")
						}
						if since := time.Since(ended); since <= 0 {
							t.Error("the client has no time to book the answer")
						}
						n.wantState(t, "1", state)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					if took := time.Since(ended); took > time.Second {
						t.Errorf("Shutdown returned %v after the handler", took)
					}
					if got := <-got; got.result != want {
						t.Errorf("%s", describe(got))
					}
					n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 0})
					if last := n.heard.last(); last.Held {
						t.Error("the result says that the answer was held")
					}
				})
			})
		}
	}
}

// After the end a delivery has come too late: it is not run, and costs an ordered message no attempt.
func TestDeliveryAfterClose(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 3})
				if err := n.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				var r runs
				m := order("1", attempt(4))
				if got := by.deliver(n.Wrap(r.succeed()), m); got.result != by.retry || by.mode == rmqdedup.Ordered && got.suspend != 1000 {
					t.Errorf("%s", describe(got))
				}
				r.want(t, "")
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventAfterClose: 1, rmqdedup.EventLastAttemptUnsettled: 0})
				if by.mode == rmqdedup.Ordered && m.ReconsumeTimes > 3 {
					t.Errorf("the attempts are %d: the client would dead-letter it", m.ReconsumeTimes)
				}
				if len(n.callsOf(rmqdedup.OpAcquire)) > 0 {
					t.Error("the store was asked, which may be closed by now")
				}
			})
		})
	}
}

func TestShutdownTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		h, started, letGo := blocked()
		got := later(func() reply { return concurrently(n.Wrap(h), order("1")) })
		<-started
		first, second := make(chan error, 1), make(chan error, 1)
		times := 0
		count := aConsumer(func() error { times++; return errBusiness })
		go func() { first <- shutdown(n, time.Hour, count) }()
		synctest.Wait()
		go func() { second <- shutdown(n, time.Hour, count) }()
		begin := time.Now()
		if err := shutdown(n, time.Minute, count); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("one that gives up: %v after %v", err, time.Since(begin))
		}
		if len(second) > 0 {
			t.Error("the second does not wait for the first")
		}
		letGo()
		if err := <-first; !errors.Is(err, errBusiness) || !strings.Contains(err.Error(), "shutting down the consumer") {
			t.Errorf("the first returned %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the second returned %v", err)
		}
		if err := n.Close(context.Background()); err != nil {
			t.Errorf("Close returned %v", err)
		}
		if times != 1 {
			t.Errorf("the consumer was shut down %d times", times)
		}
		wantReply(t, <-got, acknowledged)
	})
}

// lingering is an observer that takes its time over the end of a delivery.
type lingering struct{ rmqdedup.NopObserver }

func (lingering) End(context.Context, rmqdedup.Delivery, rmqdedup.Result) {
	time.Sleep(10 * time.Second)
}

// An answer in the making, whose handler has returned, is waited for, and no longer than that.
func TestShutdownWaitsForAnswersInTheMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Observer: lingering{}})
		h, started, letGo := blocked()
		got := later(func() reply { return concurrently(n.Wrap(h), order("1")) })
		<-started
		var gone time.Time
		down := make(chan error, 1)
		go func() { down <- shutdown(n, time.Hour, noting(&gone)) }()
		synctest.Wait()
		letGo()
		begin := time.Now()
		if err := <-down; err != nil {
			t.Error(err)
		}
		if took := gone.Sub(begin); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("the consumer is shut down %v after the handler's end", took)
		}
		wantReply(t, <-got, acknowledged)
	})
}

// Nothing runs, nothing is pending: there is no more to wait for than the client's bookkeeping.
func TestShutdownOfAnIdleWrapper(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Shadow: shadow})
			for _, id := range []string{"1", "2", "1"} {
				concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order(id))
			}
			begin := time.Now()
			if err := shutdown(n, time.Hour, func() error { return nil }); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > 100*time.Millisecond {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestShutdownWithoutAConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		if err := n.Shutdown(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "Close") {
			t.Errorf("Shutdown returned %v", err)
		}
		var r runs
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), acknowledged) // it did not begin
	})
}

// Whatever it was in the middle of, a wrapper that is shut down is still after that: no goroutine, no call of the store.
func TestNothingIsLeftAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{NoRenewal: true, Lease: 14 * time.Minute})
		n.set(only(away, rmqdedup.OpComplete))
		concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), orders("1", "2")...)
		_ = shutdown(n, time.Second, func() error { return nil })
		synctest.Wait()
		calls := len(n.faults.calls)
		begin := time.Now()
		time.Sleep(time.Hour)
		if more := len(n.faults.calls) - calls; more > 0 {
			t.Errorf("the store was called %d times in the hour after %v", more, begin)
		}
	})
}

// What is held must be let go before its consume timeout, at which the client would send it back: the consumer is then shut down while
// handlers still run.
func TestHeldDeliveryNearItsConsumeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		h, started, letGo := blocked()
		running := later(func() reply { return concurrently(n.Wrap(h), order("1")) })
		<-started
		n.claimElsewhere(t, "busy", time.Hour, 0)
		begin := time.Now()
		held := later(func() reply { return concurrently(n.Wrap(h), order("busy", attempt(16))) })
		time.Sleep(5 * time.Minute)
		var gone time.Time
		down := make(chan error, 1)
		go func() { down <- shutdown(n, time.Hour, noting(&gone)) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if after := gone.Sub(begin); after < 13*time.Minute || after > 15*time.Minute {
			t.Errorf("the consumer is shut down %v after the delivery", after)
		}
		if got := <-held; got.result != consumer.ConsumeRetryLater {
			t.Errorf("held: %s", describe(got))
		}
		if len(down) > 0 {
			t.Error("Shutdown does not wait for the handler")
		}
		letGo()
		wantReply(t, <-running, acknowledged)
		if err := <-down; err != nil {
			t.Error(err)
		}
		n.wantState(t, "1", rmqdedup.Done)
	})
}
