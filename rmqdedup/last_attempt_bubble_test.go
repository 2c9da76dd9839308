package rmqdedup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Which attempt is the last one, after which a retry is a dead letter.
func TestWhichAttemptIsTheLast(t *testing.T) {
	tests := []struct {
		mode rmqdedup.Mode
		max  int32
		last int32 // ReconsumeTimes of the last attempt; 0 with none
		none bool  // there is no last one
	}{
		{mode: rmqdedup.Concurrent, max: 0, last: 16},
		{mode: rmqdedup.Concurrent, max: -1, last: 16},
		{mode: rmqdedup.Concurrent, max: 3, last: 3},
		{mode: rmqdedup.Concurrent, max: rmqdedup.NoReconsume, last: 0},
		{mode: rmqdedup.Ordered, max: 3, last: 4}, // the client makes N + 2 calls
		{mode: rmqdedup.Ordered, max: rmqdedup.NoReconsume, last: 1},
		{mode: rmqdedup.Ordered, max: -1, none: true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v %d", tt.mode, tt.max), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := rmqdedup.Config{Mode: tt.mode, MaxReconsumeTimes: tt.max, Lease: time.Second, ConsumeTimeout: time.Minute}
				deliver := concurrently
				if tt.mode == rmqdedup.Ordered {
					deliver = orderly
				}
				attempts := []int32{tt.last - 1, tt.last, tt.last + 1}
				if tt.none {
					attempts = []int32{0, 1_000_000, 2_147_483_647}
				}
				for i, times := range attempts {
					if times < 0 {
						continue
					}
					n := newNode(t, cfg)
					n.claimElsewhere(t, "1", time.Hour, 0)
					begin := time.Now()
					if got := deliver(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1", attempt(times))); got.result == consumer.ConsumeSuccess {
						t.Errorf("attempt %d: %s", times, describe(got))
					}
					last := 0
					if i > 0 && !tt.none {
						last = 1
					}
					n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventLastAttempt: last, rmqdedup.EventLastAttemptUnsettled: last})
					if waited := time.Since(begin); (waited == 56*time.Second) != (last == 1) {
						t.Errorf("attempt %d waited for %v", times, waited)
					}
				}
			})
		})
	}
}

// In flight at the last attempt: the outcome is waited for, then acknowledged, or the message taken over or run.
func TestLastAttemptWaits(t *testing.T) {
	tests := []struct {
		name  string
		grace time.Duration
		then  func(*testing.T, *node, rmqdedup.Request) // after 30 s
		runs  string
		by    time.Duration // when it is answered, at the latest
	}{
		{"done meanwhile", 0, func(t *testing.T, n *node, r rmqdedup.Request) { n.applyElsewhere(t, rmqdedup.OpComplete, r) }, "", 31 * time.Second},
		{"failed meanwhile", 0, func(t *testing.T, n *node, r rmqdedup.Request) { n.applyElsewhere(t, rmqdedup.OpRelease, r) }, "1", 31 * time.Second},
		{"abandoned meanwhile", time.Hour, func(t *testing.T, n *node, r rmqdedup.Request) { n.applyElsewhere(t, rmqdedup.OpAbandon, r) }, "1", 31 * time.Second},
		{"its owner died", 0, func(*testing.T, *node, rmqdedup.Request) {}, "1", 61 * time.Second},
		{"its owner died, with grace", time.Hour, func(*testing.T, *node, rmqdedup.Request) {}, "1", 61 * time.Second},
	}
	for _, tt := range tests {
		for _, by := range deliverers {
			t.Run(tt.name+" "+by.mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 3})
					claim := n.claimElsewhere(t, "1", time.Minute, tt.grace)
					begin := time.Now()
					var r runs
					got := later(func() reply { return by.deliver(n.Wrap(r.succeed()), order("1", attempt(4))) })
					time.Sleep(30 * time.Second)
					if answered(got) {
						t.Fatal("answered while in flight")
					}
					tt.then(t, n, claim)
					if got := <-got; got.result != consumer.ConsumeSuccess {
						t.Errorf("%s", describe(got))
					}
					if took := time.Since(begin); took > tt.by {
						t.Errorf("answered after %v", took)
					}
					r.want(t, tt.runs)
					n.wantState(t, "1", rmqdedup.Done)
					n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventLastAttempt: 1, rmqdedup.EventLastAttemptUnsettled: 0, rmqdedup.EventInFlight: 1})
				})
			})
		}
	}
}

// Still unsettled shortly before the consume timeout: never acknowledged, answered retry, and an event of its own.
func TestLastAttemptUnsettled(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*testing.T, *node)
		told    error
		level   int
	}{
		{"in flight", func(t *testing.T, n *node) { n.claimElsewhere(t, "1", time.Hour, 0) }, nil, 17},
		{"unreachable", func(_ *testing.T, n *node) { n.set(away) }, errAway, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{MaxReconsumeTimes: 3})
				tt.prepare(t, n)
				var r runs
				begin := time.Now()
				wantReply(t, concurrently(n.Wrap(r.succeed()), order("1", attempt(3))), reply{result: consumer.ConsumeRetryLater, level: tt.level})
				if waited := time.Since(begin); waited != 14*time.Minute {
					t.Errorf("waited for %v", waited)
				}
				r.want(t, "")
				told := n.heard.of(rmqdedup.EventLastAttemptUnsettled)
				if len(told) != 1 || !errors.Is(told[0].Err, tt.told) || told[0].Key.Value != "1" {
					t.Errorf("told %+v", told)
				}
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventLastAttempt: 1, rmqdedup.EventHeld: 0, rmqdedup.EventBatchMateDeadLettered: 0})
			})
		})
	}
}

// An ordered queue waits for a store that is away even at the last attempt, as long as it takes.
func TestLastAttemptOrderedUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: 1})
		n.set(away)
		got := later(func() reply { return orderly(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1", attempt(2))) })
		time.Sleep(time.Hour)
		if answered(got) {
			t.Fatal("answered while the store was away")
		}
		n.set(nil)
		wantReply(t, <-got, orderlyDone)
	})
}

// A refusal at the last attempt is the handler's own: sent to the dead-letter queue as it wishes, and no event.
func TestLastAttemptRefused(t *testing.T) {
	for _, by := range deliverers {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 3})
			begin := time.Now()
			var r runs
			if got := by.deliver(n.Wrap(r.fail()), order("1", attempt(4))); got.result != by.retry || time.Since(begin) != 0 {
				t.Errorf("%v: %s after %v", by.mode, describe(got), time.Since(begin))
			}
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventLastAttempt: 0, rmqdedup.EventLastAttemptUnsettled: 0, rmqdedup.EventBatchMateDeadLettered: 0})
		})
	}
}

// At the last attempt, a run that failed only after we cancelled it is not a refusal: its key is acquired again.
func TestLastAttemptCutShort(t *testing.T) {
	for _, by := range deliverers {
		for _, tt := range []struct {
			name string
			then rmqdedup.Op // what the thief does
			runs string
		}{
			{"the new owner finishes", rmqdedup.OpComplete, "1"},
			{"the new owner fails", rmqdedup.OpRelease, "1, 1"},
		} {
			t.Run(by.mode.String()+" "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 3})
					var r runs
					var claims []rmqdedup.Claim
					got := later(func() reply {
						return by.deliver(n.Wrap(r.then(func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
							claims = append(claims, rmqdedup.Claims(ctx)...)
							return working(time.Minute)(ctx, msgs...)
						})), order("1", attempt(4)))
					})
					synctest.Wait()
					n.table.Age(keyOf("1"), time.Hour)
					thief := n.claimElsewhere(t, "1", time.Hour, 0)
					time.Sleep(2 * time.Minute)
					if answered(got) {
						t.Fatal("answered while in flight")
					}
					n.applyElsewhere(t, tt.then, thief)
					if got := <-got; got.result != consumer.ConsumeSuccess || got.err != nil {
						t.Errorf("%s, %v", describe(got), got.err)
					}
					r.want(t, tt.runs)
					n.wantState(t, "1", rmqdedup.Done)
					if len(claims) == 2 && claims[0].Owner == claims[1].Owner {
						t.Error("the second run has the first one's claim")
					}
				})
			})
		}
	}
}

// The claim of the second run has an owner of its own, so that a release of the first that is still on its way does not take it.
func TestLastAttemptRunsAgainWhileAReleaseIsPending(t *testing.T) {
	for _, by := range deliverers {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 3})
			n.set(only(away, rmqdedup.OpRenew, rmqdedup.OpRelease))
			h, started, letGo := blocked()
			got := later(func() reply { return by.deliver(n.Wrap(h), order("1", attempt(4))) })
			<-started // and cut short when its lease has passed
			<-started
			n.set(nil)
			time.Sleep(30 * time.Second)
			n.wantState(t, "1", rmqdedup.InFlight)
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWriteLanded: 1, rmqdedup.EventClaimLost: 1})
			letGo()
			if got := <-got; got.result != consumer.ConsumeSuccess {
				t.Errorf("%v: %s", by.mode, describe(got))
			}
		})
	}
}

// What a handler that we cancelled wished for its delay is no wish of the handler that would have gone on.
func TestLastAttemptUnsettledAfterARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{MaxReconsumeTimes: 3})
		n.set(only(away, rmqdedup.OpRenew))
		wantReply(t, concurrently(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			n.set(away)
			<-ctx.Done()
			c, _ := primitive.GetConcurrentlyCtx(ctx)
			c.DelayLevelWhenNextConsume = -1
			return consumer.ConsumeRetryLater, context.Cause(ctx)
		}), order("1", attempt(3))), sentBack)
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventLastAttemptUnsettled: 1})
	})
}

// Before the last attempt it is sent back beyond a lease, without waiting.
func TestCutShortBefore(t *testing.T) {
	for _, by := range deliverers {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 3})
			n.set(only(away, rmqdedup.OpRenew))
			begin := time.Now()
			got := by.deliver(n.Wrap(working(time.Hour)), order("1", attempt(2)))
			if got.result != by.retry || got.err != nil || by.mode == rmqdedup.Concurrent && got.level != levelBeyondAMinute {
				t.Errorf("%v: %s, %v", by.mode, describe(got), got.err)
			}
			if took := time.Since(begin); took != time.Minute {
				t.Errorf("%v: answered after %v", by.mode, took)
			}
		})
	}
}

// A batch of which one message is at its last attempt waits for all that is unsettled, since the client sends all of it back.
func TestLastAttemptOfABatchMate(t *testing.T) {
	tests := []struct {
		name        string
		msgs        []*primitive.MessageExt
		prepare     func(*testing.T, *node)
		waits       time.Duration
		want        consumer.ConsumeResult
		runs        string
		unsettled   int
		batchMates  int
		batchMateOf string
	}{
		{"in flight is the other one", []*primitive.MessageExt{order("1", attempt(3)), order("busy")}, nil, 14 * time.Minute, consumer.ConsumeRetryLater, "1", 0, 1, "1"},
		{"in flight is the one", []*primitive.MessageExt{order("1"), order("busy", attempt(3))}, nil, 14 * time.Minute, consumer.ConsumeRetryLater, "1", 1, 0, ""},
		{"the other one is refused", []*primitive.MessageExt{order("done", attempt(3)), order("refused")}, nil, 0, consumer.ConsumeRetryLater, "refused", 0, 1, "done"},
		{"the one is refused", []*primitive.MessageExt{order("done"), order("refused", attempt(3))}, nil, 0, consumer.ConsumeRetryLater, "refused", 0, 0, ""},
		{"one is refused, one in flight", []*primitive.MessageExt{order("refused"), order("busy", attempt(3))}, nil, 14 * time.Minute, consumer.ConsumeRetryLater, "refused", 1, 0, ""},
		{"all of it done", []*primitive.MessageExt{order("done", attempt(3)), order("1")}, nil, 0, consumer.ConsumeSuccess, "1", 0, 0, ""},
		{"a repeated one", []*primitive.MessageExt{order("refused"), order("refused", attempt(3))}, nil, 0, consumer.ConsumeRetryLater, "refused", 0, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{MaxReconsumeTimes: 3})
				var before, r runs
				concurrently(n.Wrap(before.succeed()), order("done"))
				n.claimElsewhere(t, "busy", 5*time.Hour, 0)
				begin := time.Now()
				if got := concurrently(n.Wrap(r.failing("refused")), tt.msgs...); got.result != tt.want {
					t.Errorf("%s", describe(got))
				}
				if waited := time.Since(begin); waited != tt.waits {
					t.Errorf("waited for %v", waited)
				}
				r.want(t, tt.runs)
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventLastAttemptUnsettled: tt.unsettled, rmqdedup.EventBatchMateDeadLettered: tt.batchMates})
				if told := n.heard.of(rmqdedup.EventBatchMateDeadLettered); len(told) == 1 && told[0].Key.Value != tt.batchMateOf {
					t.Errorf("told of %v", told[0].Key)
				}
			})
		})
	}
}

// Ordered: what stands behind a failure never had its turn; at its own last attempt it is dead-lettered with its batch-mate.
func TestOrderedBatchMateDeadLettered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: 1})
		n.claimElsewhere(t, "busy", 5*time.Hour, 0)
		wantReply(t, orderly(n.Wrap(answer(consumer.Rollback, nil)), order("1"), order("busy"), order("2", attempt(2))), suspended)
		told := n.heard.of(rmqdedup.EventBatchMateDeadLettered)
		if len(told) != 1 || told[0].Key.Value != "2" {
			t.Errorf("told %+v", told)
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventLastAttemptUnsettled: 0})
	})
}
