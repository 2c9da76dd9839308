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

// From the start of a drain no handler is started, and deliveries that wait, or come, are held until the consumer has been shut down.
func TestDrainHoldsDeliveries(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 3})
				n.claimElsewhere(t, "busy", time.Hour, 0)
				n.set(awayFor("away"))
				var r runs
				h, started, letGo := blocked()
				running := later(func() reply { return by.deliver(n.Wrap(h), order("running")) })
				<-started
				listen := n.Wrap(r.succeed())
				lastAttempt := order("busy", attempt(4))
				unreachable := order("away", attempt(1))
				waiting := []<-chan reply{
					later(func() reply { return by.deliver(listen, lastAttempt) }),
					later(func() reply { return by.deliver(listen, unreachable) }),
				}
				time.Sleep(10 * time.Second)
				var gone time.Time
				down := make(chan error, 1)
				go func() { down <- shutdown(n, time.Hour, noting(&gone)) }()
				synctest.Wait()
				fresh, orphan := order("fresh"), order("busy", attempt(2))
				waiting = append(waiting,
					later(func() reply { return by.deliver(listen, fresh) }),
					later(func() reply { return by.deliver(listen, orphan) }),
				)
				time.Sleep(time.Minute)
				for i, c := range waiting {
					if answered(c) {
						t.Errorf("delivery %d is answered while draining", i)
					}
				}
				if !gone.IsZero() {
					t.Error("the consumer is shut down while a handler runs")
				}
				letGo()
				if err := <-down; err != nil {
					t.Error(err)
				}
				if got := <-running; got.result != consumer.ConsumeSuccess {
					t.Errorf("the handler that ran: %s", describe(got))
				}
				for i, c := range waiting {
					if got := <-c; got.result != by.retry {
						t.Errorf("delivery %d: %s", i, describe(got))
					}
				}
				r.want(t, "")
				n.wantState(t, "fresh", rmqdedup.Absent)
				if last := n.heard.last(); !last.Held {
					t.Error("the result does not say that the answer was held")
				}
				// The client counts an attempt of an ordered message whose queue is suspended, before it looks whether the queue is dropped: that is undone.
				cost := int32(0)
				if by.mode == rmqdedup.Ordered {
					cost = -1
				}
				for m, times := range map[*primitive.MessageExt]int32{lastAttempt: 4, unreachable: 1, fresh: 0, orphan: 2} {
					if m.ReconsumeTimes != times+cost {
						t.Errorf("the attempts of %s are %d after the drain, %d before", m.GetKeys(), m.ReconsumeTimes, times)
					}
				}
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventLastAttemptUnsettled: 0, rmqdedup.EventBatchMateDeadLettered: 0})
			})
		})
	}
}

// The client dead-letters an ordered message whose attempts are above the maximum; what is let go is never above it.
func TestLetGoIsNotDeadLettered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: 3})
		m := order("1", attempt(9)) // as when the dead-letter queue could not be reached for a while
		go func() {
			time.Sleep(10 * time.Millisecond)
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		n.claimElsewhere(t, "1", time.Hour, 0)
		orderly(n.Wrap(answer(consumer.ConsumeSuccess, nil)), m)
		if m.ReconsumeTimes > 3 {
			t.Errorf("the attempts are %d", m.ReconsumeTimes)
		}
	})
}

// A claim that an acquire brings in after the drain's start is given back unrun: a fresh one released, a takeover abandoned.
func TestDrainGivesBackClaims(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode})
				n.claimElsewhere(t, "orphan", time.Second, time.Hour)
				time.Sleep(2 * time.Second)
				n.set(only(slow(10*time.Second), rmqdedup.OpAcquire))
				var r runs
				got := later(func() reply { return by.deliver(n.Wrap(r.succeed()), orders("1", "orphan", "2")...) })
				time.Sleep(time.Second)
				var gone time.Time
				begin := time.Now()
				if err := shutdown(n, time.Hour, noting(&gone)); err != nil {
					t.Error(err)
				}
				if waited := gone.Sub(begin); waited < 9*time.Second {
					t.Errorf("the consumer is shut down after %v, when the acquire is still out", waited)
				}
				if got := <-got; got.result != by.retry {
					t.Errorf("%s", describe(got))
				}
				r.want(t, "")
				released, abandoned := n.callsOf(rmqdedup.OpRelease), n.callsOf(rmqdedup.OpAbandon)
				if len(released) != 1 || len(released[0]) != 2 || len(abandoned) != 1 || abandoned[0][0].Key.Value != "orphan" {
					t.Errorf("released %v, abandoned %v", released, abandoned)
				}
				n.wantState(t, "1", rmqdedup.Absent)
			})
		})
	}
}

// When its time is over, what still runs is cancelled, and its answer held until the consumer has been shut down.
func TestDrainCancelsAtTheDeadline(t *testing.T) {
	for _, by := range deliverers {
		for _, heeds := range []bool{true, false} {
			name := by.mode.String() + " failing"
			if !heeds {
				name = by.mode.String() + " succeeding all the same"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{Mode: by.mode})
					for _, id := range []string{"before", "before that"} { // which do not run any more
						by.deliver(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order(id))
					}
					var cause error
					got := later(func() reply {
						return by.deliver(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
							<-ctx.Done()
							cause = context.Cause(ctx)
							if heeds {
								return consumer.ConsumeRetryLater, cause
							}
							return consumer.ConsumeSuccess, nil
						}), order("1"))
					})
					synctest.Wait()
					begin := time.Now()
					err := shutdown(n, 90*time.Second, func() error {
						if waited := time.Since(begin); waited < 90*time.Second || waited > 91*time.Second {
							t.Errorf("the consumer is shut down after %v", waited)
						}
						if answered(got) {
							t.Error("answered before the consumer was shut down")
						}
						return nil
					})
					if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 handlers were still running") {
						t.Errorf("Shutdown returned %v", err)
					}
					if !errors.Is(cause, rmqdedup.ErrDraining) {
						t.Errorf("the cause is %v", cause)
					}
					wanted := by.retry
					if got := <-got; got.result != wanted {
						t.Errorf("%s", describe(got))
					}
					state := rmqdedup.Absent
					if !heeds {
						state = rmqdedup.Done
					}
					n.wantState(t, "1", state)
					if last := n.heard.last(); !last.Held {
						t.Error("the result does not say that the answer was held")
					}
				})
			})
		}
	}
}

// A handler that fails during a drain, but only after we cancelled it for a lost claim, has not ended by itself: its delivery is held too.
func TestClaimLostWhileDraining(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode})
				h, started, _ := blocked()
				m := order("1")
				got := later(func() reply { return by.deliver(n.Wrap(h), m) })
				<-started
				n.set(only(away, rmqdedup.OpRenew))
				err := shutdown(n, time.Hour, func() error {
					if answered(got) {
						t.Error("answered before the consumer was shut down")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if got := <-got; got.result != by.retry {
					t.Errorf("%s", describe(got))
				}
				if last := n.heard.last(); !last.Held {
					t.Error("the result does not say that the answer was held")
				}
				n.wantState(t, "1", rmqdedup.Absent)
			})
		})
	}
}

// A handler that ignores its context goes on after Shutdown: its claim is renewed until it returns, and settled by its answer.
func TestDrainLeavesAStubbornHandlerItsClaim(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode})
				resume := make(chan struct{})
				got := later(func() reply {
					return by.deliver(n.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
						<-resume
						return consumer.ConsumeSuccess, nil
					}), order("1"))
				})
				synctest.Wait()
				begin := time.Now()
				if err := shutdown(n, time.Second, func() error { return nil }); err == nil {
					t.Error("Shutdown does not tell of the handler")
				}
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("Shutdown took %v", took)
				}
				time.Sleep(10 * time.Minute)
				n.wantState(t, "1", rmqdedup.InFlight)
				if renewed := len(n.callsOf(rmqdedup.OpRenew)); renewed < 25 {
					t.Errorf("renewed %d times in ten minutes", renewed)
				}
				close(resume)
				<-got
				n.wantState(t, "1", rmqdedup.Done)
			})
		})
	}
}

// Draining in the middle of a batch: what ran is settled, the rest is neither run nor answered for.
func TestDrainInMidBatch(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode})
				n.claimElsewhere(t, "busy", time.Hour, 0)
				h, started, letGo := blocked()
				got := later(func() reply { return by.deliver(n.Wrap(h), orders("1", "busy", "2")...) })
				<-started
				var gone time.Time
				down := make(chan error, 1)
				go func() { down <- shutdown(n, time.Hour, noting(&gone)) }()
				time.Sleep(time.Second)
				letGo()
				if err := <-down; err != nil {
					t.Error(err)
				}
				if got := <-got; got.result != by.retry || gone.IsZero() {
					t.Errorf("%s, the consumer shut down at %v", describe(got), gone)
				}
				n.wantState(t, "1", rmqdedup.Done)
				if last := n.heard.last(); !last.Held {
					t.Error("the result does not say that the answer was held")
				}
			})
		})
	}
}
