package rmqdedup_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Closed, concurrent: held for half the consume timeout while the store is tried again, then sent back at the broker's level.
func TestOutageClosedConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{ConsumeTimeout: 10 * time.Minute})
		n.set(away)
		var r runs
		begin := time.Now()
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), sentBack)
		if held := time.Since(begin); held != 5*time.Minute {
			t.Errorf("held for %v", held)
		}
		r.want(t, "")
		if tries := len(n.callsOf(rmqdedup.OpAcquire)); tries < 300 || tries > 650 {
			t.Errorf("tried %d times in five minutes, which is no backoff of up to a second", tries)
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventHeld: 1, rmqdedup.EventUnprotected: 0, rmqdedup.EventLastAttempt: 0})
		if told := n.heard.of(rmqdedup.EventHeld)[0]; !errors.Is(told.Err, errAway) || told.Key.Value != "1" {
			t.Errorf("told %+v", told)
		}
		if last := n.heard.last(); last.Unreachable != 1 || last.Ran != 0 {
			t.Errorf("the result is %+v", last)
		}
	})
}

// While held, the delivery runs as soon as the store is back: within the longest pause.
func TestOutageClosedEnds(t *testing.T) {
	for _, by := range deliverers {
		for name, rule := range map[string]rmqdedup.Interceptor{"away": away, "hanging": hanging, "no answers": noAnswers, "strange": strange} {
			t.Run(by.mode.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{Mode: by.mode})
					n.set(rule)
					var r runs
					got := later(func() reply { return by.deliver(n.Wrap(r.succeed()), order("1")) })
					time.Sleep(time.Minute)
					r.want(t, "")
					n.set(nil)
					back := time.Now()
					if got := <-got; got.result != consumer.ConsumeSuccess {
						t.Errorf("%s", describe(got))
					}
					if took := time.Since(back); took > 4*time.Second {
						t.Errorf("ran %v after the store was back", took)
					}
					r.want(t, "1")
					n.wantState(t, "1", rmqdedup.Done)
				})
			})
		}
	}
}

// noAnswers is a broken store that answers too little.
func noAnswers(context.Context, rmqdedup.Store, rmqdedup.Op, []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return nil, nil
}

// strange is a broken store whose answer makes no sense for the operation.
func strange(_ context.Context, _ rmqdedup.Store, _ rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	return make([]rmqdedup.Answer, len(reqs)), nil
}

// Closed, ordered: held until the store is back, however long, and no attempt is spent.
func TestOutageClosedOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: 1})
		n.set(away)
		var r runs
		got := later(func() reply { return orderly(n.Wrap(r.succeed()), order("1", attempt(2)), order("2")) })
		for range 5 {
			time.Sleep(time.Hour)
			if answered(got) {
				t.Fatal("answered while the store was away")
			}
		}
		n.set(nil)
		wantReply(t, <-got, orderlyDone)
		r.want(t, "1 2")
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventHeld: 1, rmqdedup.EventStoreError: 1})
	})
}

// Open: the handler runs unprotected, which is counted, and DONE is written as usual when the store is back.
func TestOutageOpen(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode, Outage: rmqdedup.Open})
				n.set(away)
				var r runs
				var claims []rmqdedup.Claim
				begin := time.Now()
				got := by.deliver(n.Wrap(r.then(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
					claims = rmqdedup.Claims(ctx)
					return consumer.ConsumeSuccess, nil
				})), orders("1", "2")...)
				if got.result != consumer.ConsumeSuccess || time.Since(begin) != 0 {
					t.Errorf("%s after %v", describe(got), time.Since(begin))
				}
				r.want(t, "1 2")
				if len(claims) != 2 || !claims[0].Owner.IsZero() || claims[0].Key.Value != "1" {
					t.Errorf("the claims are %+v", claims)
				}
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventUnprotected: 2, rmqdedup.EventHeld: 0})
				if told := n.heard.of(rmqdedup.EventUnprotected)[1]; !errors.Is(told.Err, errAway) || told.Message.MsgId != "uniq-2" {
					t.Errorf("told %+v", told)
				}
				if last := n.heard.last(); last.Unprotected != 2 || last.Unreachable != 2 || last.Ran != 2 {
					t.Errorf("the result is %+v", last)
				}
				n.wantState(t, "1", rmqdedup.Absent)
				n.set(nil)
				time.Sleep(10 * time.Second)
				n.wantState(t, "1", rmqdedup.Done)
				n.wantState(t, "2", rmqdedup.Done)
				if got := by.deliver(n.Wrap(r.succeed()), order("1")); got.result != consumer.ConsumeSuccess {
					t.Errorf("afterwards: %s", describe(got))
				}
				r.want(t, "1 2")
			})
		})
	}
}

// Open, and the handler fails: sent back by its own wish, and the claim that the store may hold for it is abandoned, not released.
func TestOutageOpenFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Outage: rmqdedup.Open})
		n.set(only(replyLost, rmqdedup.OpAcquire))
		var r runs
		wantReply(t, concurrently(n.Wrap(r.fail()), order("1")), reply{result: consumer.ConsumeRetryLater, err: errBusiness})
		n.wantState(t, "1", rmqdedup.InFlight)
		time.Sleep(time.Second)
		if n.wantState(t, "1", rmqdedup.Absent); len(n.callsOf(rmqdedup.OpAbandon)) != 1 || len(n.callsOf(rmqdedup.OpRelease)) != 0 {
			t.Errorf("abandoned %d times, released %d times", len(n.callsOf(rmqdedup.OpAbandon)), len(n.callsOf(rmqdedup.OpRelease)))
		}
		n.set(nil)
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1", attempt(1))), acknowledged)
	})
}

// The part of a store that has one of the keys is away: the others go on, in one call, and the delivery is held for the one.
func TestPartialOutage(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			n.set(awayFor("2"))
			var r runs
			got := later(func() reply { return concurrently(n.Wrap(r.succeed()), orders("1", "2", "3")...) })
			time.Sleep(time.Minute)
			r.want(t, "1 3")
			n.wantState(t, "1", rmqdedup.Done)
			if answered(got) {
				t.Fatal("answered already")
			}
			n.set(nil)
			wantReply(t, <-got, acknowledged)
			r.want(t, "1 3, 2")
			if calls := n.callsOf(rmqdedup.OpAcquire); len(calls[len(calls)-1]) != 1 {
				t.Error("what was settled was acquired again")
			}
		})
	})
	t.Run("open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Outage: rmqdedup.Open})
			n.set(awayFor("2"))
			var r runs
			wantReply(t, concurrently(n.Wrap(r.succeed()), orders("1", "2", "3")...), acknowledged)
			r.want(t, "1 2 3")
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventUnprotected: 1, rmqdedup.EventWritePending: 1})
			n.set(nil)
			time.Sleep(time.Second)
			n.wantState(t, "2", rmqdedup.Done)
		})
	})
	t.Run("open, ordered, behind one in flight", func(t *testing.T) {
		// What could not be claimed while another was in the way is claimed when its turn comes.
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Mode: rmqdedup.Ordered, Outage: rmqdedup.Open})
			busy := n.claimElsewhere(t, "busy", time.Hour, 0)
			n.set(awayFor("2"))
			var r runs
			got := later(func() reply { return orderly(n.Wrap(r.succeed()), orders("1", "busy", "2")...) })
			time.Sleep(time.Second)
			n.set(nil)
			n.applyElsewhere(t, rmqdedup.OpComplete, busy)
			wantReply(t, <-got, orderlyDone)
			r.want(t, "1, 2")
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventUnprotected: 0})
		})
	})
	t.Run("closed, beside one in flight", func(t *testing.T) {
		// Nothing is gained by holding what is sent back anyway.
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			n.claimElsewhere(t, "busy", 20*time.Second, 0)
			n.set(awayFor("2"))
			begin := time.Now()
			wantReply(t, concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), orders("busy", "2")...), reply{result: consumer.ConsumeRetryLater, level: 4})
			if time.Since(begin) != 0 {
				t.Errorf("held for %v", time.Since(begin))
			}
		})
	})
}

// The store did what it was asked, but its answer was lost: the same owner asks again, and is no duplicate of itself.
func TestLostReplyOfAnAcquire(t *testing.T) {
	for _, by := range deliverers {
		for name, orphaned := range map[string]bool{"fresh": false, "takeover": true} {
			t.Run(by.mode.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{Mode: by.mode})
					if orphaned {
						n.claimElsewhere(t, "1", time.Second, time.Hour)
						time.Sleep(2 * time.Second)
					}
					n.set(firstTimes(2, only(replyLost, rmqdedup.OpAcquire)))
					var claims []rmqdedup.Claim
					got := by.deliver(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
						claims = rmqdedup.Claims(ctx)
						return consumer.ConsumeSuccess, nil
					}), order("1"))
					if got.result != consumer.ConsumeSuccess {
						t.Errorf("%s", describe(got))
					}
					if len(claims) != 1 || claims[0].Takeover != orphaned {
						t.Errorf("the claims are %+v", claims)
					}
					calls := n.callsOf(rmqdedup.OpAcquire)
					if len(calls) != 3 || calls[0][0].Owner != calls[2][0].Owner {
						t.Errorf("acquired in %d calls", len(calls))
					}
					n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventInFlight: 0})
				})
			})
		}
	}
}

// An acquire that is given up on without a known answer is abandoned, never released: it may have taken over an orphan.
func TestUnknownAcquireIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(replyLost, rmqdedup.OpAcquire))
		var r runs
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), sentBack)
		r.want(t, "")
		time.Sleep(time.Second)
		n.wantState(t, "1", rmqdedup.Absent) // without grace, abandoned is as good as removed
		if abandoned := n.callsOf(rmqdedup.OpAbandon); len(abandoned) != 1 || abandoned[0][0].Owner != n.callsOf(rmqdedup.OpAcquire)[0][0].Owner {
			t.Errorf("abandoned %v", abandoned)
		}
		if released := n.callsOf(rmqdedup.OpRelease); len(released) != 0 {
			t.Errorf("released %v", released)
		}
	})
}

// A caller that gives up is no outage: nothing runs unprotected on its account.
func TestCallerGivesUp(t *testing.T) {
	for _, policy := range []rmqdedup.OutagePolicy{rmqdedup.Closed, rmqdedup.Open} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Outage: policy})
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			var r runs
			if result, _ := n.Wrap(r.succeed())(ctx, order("1")); result != consumer.ConsumeRetryLater {
				t.Errorf("policy %v: %s", policy, resultName(result))
			}
			r.want(t, "")
		})
	}
}

// Case 16: the caller's context is cancelled right after success.
func TestCase16CancelledAfterSuccess(t *testing.T) {
	for _, result := range []consumer.ConsumeResult{consumer.ConsumeSuccess, consumer.ConsumeRetryLater} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			ctx, cancel := context.WithCancel(context.Background())
			got, _ := n.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				cancel()
				return result, nil
			})(ctx, order("1"))
			if got != result {
				t.Errorf("answered %s", resultName(got))
			}
			state := rmqdedup.Done
			if result != consumer.ConsumeSuccess {
				state = rmqdedup.Absent
			}
			n.wantState(t, "1", state)
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWritePending: 0})
		})
	}
}
