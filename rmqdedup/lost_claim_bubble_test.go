package rmqdedup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The store says that the claim is gone: the handler is cancelled, with a cause that names the key and says why.
func TestClaimTakenAway(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode})
				begin := time.Now()
				var ended time.Duration
				var cause error
				h := func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
					<-ctx.Done()
					ended, cause = time.Since(begin), context.Cause(ctx)
					return consumer.ConsumeRetryLater, cause
				}
				got := later(func() reply { return by.deliver(n.Wrap(h), order("1")) })
				synctest.Wait()
				n.table.Age(keyOf("1"), time.Hour)
				thief := n.claimElsewhere(t, "1", time.Hour, 0)
				if got := <-got; got.result != by.retry || got.err != nil {
					t.Errorf("%s, %v", describe(got), got.err)
				}
				if ended != 20*time.Second {
					t.Errorf("cancelled after %v, want at the first renewal", ended)
				}
				var lost *rmqdedup.LostClaimError
				if !errors.As(cause, &lost) || !errors.Is(cause, rmqdedup.ErrClaimLost) || !errors.Is(cause, rmqdedup.ErrTakenAway) ||
					len(lost.Keys) != 1 || lost.Keys[0].Value != "1" || !strings.Contains(cause.Error(), "orders/paid: 1") {
					t.Errorf("the cause is %v", cause)
				}
				if state := n.wantState(t, "1", rmqdedup.InFlight); state.Record.Owner != thief.Owner {
					t.Error("the new owner's claim was touched")
				}
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 1})
			})
		})
	}
}

// An owner that is cut off from the store stops by itself, by its own clock, counted from before its last success was sent.
func TestClaimLostByOwnClock(t *testing.T) {
	for name, rule := range map[string]rmqdedup.Interceptor{"away": away, "hanging": hanging, "reply lost": replyLost} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{})
				begin := time.Now()
				time.AfterFunc(30*time.Second, func() { n.set(rule) }) // after the first renewal, at 20 s
				var ended time.Duration
				var cause error
				got := concurrently(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
					<-ctx.Done()
					ended, cause = time.Since(begin), context.Cause(ctx)
					return consumer.ConsumeRetryLater, nil
				}), order("1"))
				wantReply(t, got, reply{result: consumer.ConsumeRetryLater, level: levelBeyondAMinute})
				if ended != 80*time.Second || !errors.Is(cause, rmqdedup.ErrLeasePassed) || !errors.Is(cause, rmqdedup.ErrClaimLost) {
					t.Errorf("cancelled after %v with %v", ended, cause)
				}
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 1})
			})
		})
	}
}

// The lease counts from before an acquire was sent, not from its answer.
func TestLeaseCountsFromBeforeTheAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{NoRenewal: true, Lease: time.Minute})
		begin := time.Now()
		n.set(only(slow(20*time.Second), rmqdedup.OpAcquire))
		var ended time.Duration
		concurrently(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			<-ctx.Done()
			ended = time.Since(begin)
			return consumer.ConsumeRetryLater, nil
		}), order("1"))
		if ended != time.Minute {
			t.Errorf("cancelled after %v", ended)
		}
	})
}

// And from before a renewal was sent.
func TestLeaseCountsFromBeforeTheRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		begin := time.Now()
		n.set(only(slow(10*time.Second), rmqdedup.OpRenew))
		time.AfterFunc(25*time.Second, func() { n.set(away) }) // while the first renewal is answered
		var ended time.Duration
		concurrently(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			<-ctx.Done()
			ended = time.Since(begin)
			return consumer.ConsumeRetryLater, nil
		}), order("1"))
		if ended != 80*time.Second {
			t.Errorf("cancelled after %v", ended)
		}
	})
}

// slow is a store that does what it is asked at once and takes its time to answer.
func slow(d time.Duration) rmqdedup.Interceptor {
	return func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		answers, err := rmqdedup.Do(ctx, next, op, reqs)
		time.Sleep(d)
		return answers, err
	}
}

// A handler is never started on a claim that has ended meanwhile: it is acquired again.
func TestClaimLostBeforeTheHandlerStarts(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode, Lease: 10 * time.Second})
				n.set(only(firstTimes(2, slow(15*time.Second)), rmqdedup.OpAcquire))
				var r runs
				begin := time.Now()
				if got := by.deliver(n.Wrap(r.succeed()), orders("1", "2")...); got.result != consumer.ConsumeSuccess {
					t.Errorf("%s", describe(got))
				}
				if took := time.Since(begin); took != 30*time.Second {
					t.Errorf("ran after %v", took)
				}
				r.want(t, "1 2")
				if calls := n.callsOf(rmqdedup.OpAcquire); len(calls) != 3 || calls[0][0].Owner != calls[2][0].Owner {
					t.Errorf("acquired in %d calls", len(calls))
				}
			})
		})
	}
}

// If the store is always that slow, it is as good as away.
func TestClaimAlwaysLostBeforeTheHandlerStarts(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Lease: 10 * time.Second, ConsumeTimeout: 4 * time.Minute})
			n.set(only(slow(15*time.Second), rmqdedup.OpAcquire))
			var r runs
			wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), sentBack)
			r.want(t, "")
			if told := n.heard.of(rmqdedup.EventHeld); len(told) != 1 || !errors.Is(told[0].Err, rmqdedup.ErrLeasePassed) {
				t.Errorf("told %+v", told)
			}
		})
	})
	t.Run("open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Lease: 10 * time.Second, Outage: rmqdedup.Open})
			n.set(only(slow(15*time.Second), rmqdedup.OpAcquire))
			var r runs
			wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), acknowledged)
			r.want(t, "1")
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventUnprotected: 1})
		})
	})
}

// Case 8: A's claim expires, B claims, and then A fails or finishes.
func TestCase8LateOwner(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer consumer.ConsumeResult
		want   rmqdedup.Outcome
	}{
		{"fails", consumer.ConsumeRetryLater, rmqdedup.InFlight},
		{"finishes", consumer.ConsumeSuccess, rmqdedup.Done},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newNode(t, rmqdedup.Config{})
				b := a.another(t, rmqdedup.Config{})
				a.set(only(away, rmqdedup.OpRenew))
				resume := make(chan struct{})
				first := later(func() reply {
					return concurrently(a.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
						<-resume // it does not heed its context
						return tt.answer, nil
					}), order("1"))
				})
				time.Sleep(61 * time.Second)
				h, started, letGo := blocked()
				second := later(func() reply { return concurrently(b.Wrap(h), order("1")) })
				<-started
				close(resume)
				got := <-first
				if got.result != tt.answer {
					t.Errorf("A is answered %s", describe(got))
				}
				a.wantState(t, "1", tt.want)
				a.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 1})
				// B goes on as long as it does not hear of it, and is DONE either way.
				letGo()
				wantReply(t, <-second, acknowledged)
				b.wantState(t, "1", rmqdedup.Done)
			})
		})
	}
}

// B is told at its next renewal that A has finished after all.
func TestCase8NewOwnerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNode(t, rmqdedup.Config{})
		a := b.claimElsewhere(t, "1", time.Second, time.Hour)
		time.Sleep(2 * time.Second)
		var cause error
		second := later(func() reply {
			return concurrently(b.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return consumer.ConsumeRetryLater, nil
			}), order("1"))
		})
		time.Sleep(time.Second)
		b.applyElsewhere(t, rmqdedup.OpComplete, a)
		<-second
		if !errors.Is(cause, rmqdedup.ErrTakenAway) {
			t.Errorf("the cause is %v", cause)
		}
		b.wantState(t, "1", rmqdedup.Done)
	})
}

// Case 15: the row is deleted while the handler runs.
func TestCase15RowIsDeleted(t *testing.T) {
	for _, answer := range []consumer.ConsumeResult{consumer.ConsumeSuccess, consumer.ConsumeRetryLater} {
		for _, handling := range []time.Duration{time.Second, time.Minute} { // before and after the first renewal
			t.Run(fmt.Sprint(resultName(answer), " after ", handling), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{})
					got := concurrently(n.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
						claim := n.callsOf(rmqdedup.OpAcquire)[0][0]
						n.applyElsewhere(t, rmqdedup.OpRelease, claim)
						time.Sleep(handling)
						return answer, nil
					}), order("1"))
					if got.result != answer {
						t.Errorf("%s", describe(got))
					}
					state := rmqdedup.Done
					lost := 1
					if answer != consumer.ConsumeSuccess {
						state = rmqdedup.Absent
						if handling < 20*time.Second {
							lost = 0 // nobody noticed, and nothing was lost by it
						}
					}
					n.wantState(t, "1", state)
					n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: lost})
				})
			})
		}
	}
}

// Claims of several calls that are lost at once: each call is cancelled with its own keys.
func TestLostClaimsOfSeveralCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(away, rmqdedup.OpRenew))
		var mu sync.Mutex
		causes := make(map[string]error)
		h := func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			causes[msgs[0].GetKeys()] = context.Cause(ctx)
			return consumer.ConsumeRetryLater, nil
		}
		first := later(func() reply { return concurrently(n.Wrap(h), orders("1", "2")...) })
		second := later(func() reply { return concurrently(n.Wrap(h), orders("3", "4", "5")...) })
		<-first
		<-second
		for id, want := range map[string]string{"1": "(orders/paid: 1, orders/paid: 2)", "3": "(orders/paid: 3, orders/paid: 4, orders/paid: 5)"} {
			if cause := causes[id]; cause == nil || !strings.Contains(cause.Error(), want) {
				t.Errorf("the cause of the call of order %s is %v, want one with %s", id, cause, want)
			}
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 5})
	})
}

// dawdler is an observer that takes its time over a takeover, as none should.
type dawdler struct {
	rmqdedup.NopObserver
	d time.Duration
}

func (o dawdler) Event(_ context.Context, e rmqdedup.Event) {
	if e.Kind == rmqdedup.EventTakenOver {
		time.Sleep(o.d)
	}
}

// One of several claims is lost before the handler starts: it is acquired again, and the others are kept meanwhile.
func TestOneClaimLostBeforeTheHandlerStarts(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode, Observer: dawdler{d: 30 * time.Second}, MaxReconsumeTimes: 3})
				n.claimElsewhere(t, "2", time.Second, time.Hour)
				time.Sleep(2 * time.Second)
				var r runs
				got := later(func() reply { return by.deliver(n.Wrap(r.succeed()), order("1"), order("2"), order("3", attempt(4))) })
				time.Sleep(10 * time.Second)
				n.table.Age(keyOf("1"), time.Hour)
				thief := n.claimElsewhere(t, "1", 95*time.Second, 0)
				time.Sleep(40 * time.Second)
				if answered(got) {
					t.Fatal("answered while in flight")
				}
				n.applyElsewhere(t, rmqdedup.OpComplete, thief)
				if got := <-got; got.result != consumer.ConsumeSuccess {
					t.Errorf("%s", describe(got))
				}
				r.want(t, "2 3")
				for _, id := range []string{"1", "2", "3"} {
					n.wantState(t, id, rmqdedup.Done)
				}
			})
		})
	}
}

// However long an observer takes: the claim is kept from the acquire on.
func TestClaimIsKeptWhileItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Observer: dawdler{d: 5 * time.Minute}})
		n.claimElsewhere(t, "1", time.Second, time.Hour)
		time.Sleep(2 * time.Second)
		wantReply(t, concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1")), acknowledged)
		if calls := n.callsOf(rmqdedup.OpAcquire); len(calls) != 1 {
			t.Errorf("acquired in %d calls", len(calls))
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: 0})
	})
}

// A message without a key whose call was cancelled on a batch-mate's account runs again with it, at the last attempt.
func TestCutShortWithoutAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{NoKey: rmqdedup.NoKeyUnprotected, MaxReconsumeTimes: 3})
		var r runs
		got := later(func() reply {
			return concurrently(n.Wrap(r.then(working(time.Minute))), order("", attempt(3)), order("1"))
		})
		synctest.Wait()
		n.table.Age(keyOf("1"), time.Hour)
		n.claimElsewhere(t, "1", 30*time.Second, 0)
		wantReply(t, <-got, acknowledged)
		if calls := r.String(); !strings.HasPrefix(calls, " 1, ") || strings.Count(calls, "1") != 2 {
			t.Errorf("the handler was called with %q", calls)
		}
	})
}
