package rmqdedup_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// failing returns a handler that notes its calls and fails those that have one of some orders in them.
func (r *runs) failing(ids ...string) rmqdedup.Handler {
	return r.then(func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range msgs {
			if slices.Contains(ids, m.GetKeys()) {
				return consumer.ConsumeRetryLater, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	})
}

func TestCase20MixedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		var r runs
		listen := n.Wrap(r.succeed())
		wantReply(t, concurrently(listen, order("done")), acknowledged)
		n.claimElsewhere(t, "busy", 40*time.Second, 0)
		wantReply(t, concurrently(listen, orders("done", "busy", "new")...), reply{result: consumer.ConsumeRetryLater, level: 5})
		r.want(t, "done, new")
		n.wantState(t, "new", rmqdedup.Done)
		n.wantState(t, "busy", rmqdedup.InFlight)
		if last := n.heard.last(); last.Ran != 1 || last.Suppressed != 1 || last.InFlight != 1 || last.Failed != 0 {
			t.Errorf("the result is %+v", last)
		}
		if calls := n.callsOf(rmqdedup.OpAcquire); len(calls[1]) != 3 {
			t.Errorf("a batch of three took %d acquires", len(calls)-1)
		}
		// The broker sends them back one by one.
		time.Sleep(time.Minute)
		for _, id := range []string{"done", "busy", "new"} {
			wantReply(t, concurrently(listen, order(id, attempt(1))), acknowledged)
		}
		r.want(t, "done, new, busy")
	})
}

func TestCase20OneFailsInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		var r runs
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("done")), acknowledged)
		listen := n.Wrap(r.failing("fails"))
		wantReply(t, concurrently(listen, orders("done", "fails", "unseen")...), sentBack)
		r.want(t, "done, fails unseen")
		n.wantState(t, "fails", rmqdedup.Absent)
		n.wantState(t, "unseen", rmqdedup.Absent)
		listen = n.Wrap(r.succeed())
		wantReply(t, concurrently(listen, order("done", attempt(1)), order("fails", attempt(1)), order("unseen", attempt(1))), acknowledged)
		r.want(t, "done, fails unseen, fails unseen")
		if last := n.heard.last(); last.Suppressed != 1 || last.Ran != 2 {
			t.Errorf("the result is %+v", last)
		}
	})
}

func TestCase20AllDone(t *testing.T) {
	for _, by := range deliverers {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Mode: by.mode})
			var r runs
			for range 2 {
				if got := by.deliver(n.Wrap(r.succeed()), orders("1", "2", "3")...); got.result != consumer.ConsumeSuccess {
					t.Errorf("%v: %s", by.mode, describe(got))
				}
			}
			r.want(t, "1 2 3")
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventSuppressed: 3})
			if last := n.heard.last(); last.Suppressed != 3 {
				t.Errorf("the result is %+v", last)
			}
		})
	}
}

func TestCase20OneKeyTwiceInABatch(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode})
				var r runs
				msgs := []*primitive.MessageExt{order("1"), order("2"), order("1", sentAs("again")), order("1", sentAs("third"), withBody("another"))}
				if got := by.deliver(n.Wrap(r.failing("1")), msgs...); got.result != by.retry {
					t.Errorf("at first: %s", describe(got))
				}
				if last := n.heard.last(); last.Suppressed != 0 || last.Ran != 2 || last.Failed != 2 {
					t.Errorf("the result is %+v", last)
				}
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventRepeated: 2, rmqdedup.EventBodyDiffers: 1, rmqdedup.EventInFlight: 0})
				if e := n.heard.of(rmqdedup.EventBodyDiffers)[0]; e.Message.MsgId != "third" || e.Record.MessageID != "uniq-1" {
					t.Errorf("told %+v, record %+v", e, e.Record)
				}
				if got := by.deliver(n.Wrap(r.succeed()), msgs...); got.result != consumer.ConsumeSuccess {
					t.Errorf("then: %s", describe(got))
				}
				r.want(t, "1 2, 1 2")
				if last := n.heard.last(); last.Suppressed != 2 || last.Ran != 2 {
					t.Errorf("the result is %+v", last)
				}
				if got := by.deliver(n.Wrap(r.succeed()), msgs...); got.result != consumer.ConsumeSuccess {
					t.Errorf("at last: %s", describe(got))
				}
				if last := n.heard.last(); last.Suppressed != 4 || last.Ran != 0 {
					t.Errorf("the result is %+v", last)
				}
				for _, call := range n.callsOf(rmqdedup.OpAcquire) {
					if len(call) != 2 {
						t.Errorf("an acquire of %d requests for two keys", len(call))
					}
				}
			})
		})
	}
}

// The claimed messages of a batch are handed over in one call, in order, and each with its claim.
func TestBatchIsOneCallInOrder(t *testing.T) {
	for _, by := range deliverers {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Mode: by.mode})
			var before, r runs
			by.deliver(n.Wrap(before.succeed()), orders("3", "7")...)
			var claims []rmqdedup.Claim
			by.deliver(n.Wrap(r.then(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				claims = rmqdedup.Claims(ctx)
				return consumer.ConsumeSuccess, nil
			})), orders("9", "7", "2", "8", "3", "1")...)
			r.want(t, "9 2 8 1")
			var ids []string
			for _, c := range claims {
				ids = append(ids, c.Key.Value)
			}
			if !slices.Equal(ids, []string{"9", "2", "8", "1"}) {
				t.Errorf("the claims are of %v", ids)
			}
			if calls := n.callsOf(rmqdedup.OpComplete); len(calls) != 2 || len(calls[1]) != 4 {
				t.Errorf("DONE was written in %d calls", len(calls)-1)
			}
		})
	}
}

// The client acknowledges from the very slice that it passes: it must still have every message in it, in order.
func TestClientsSliceIsLeftAlone(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		for _, by := range deliverers {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode, Shadow: shadow, Observer: untidy{t: t}})
				by.deliver(n.Wrap(answer(consumer.ConsumeSuccess, nil)), orders("2")...)
				msgs := orders("1", "2", "3", "1")
				want := slices.Clone(msgs)
				by.deliver(n.Wrap(func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
					slices.Reverse(msgs)
					clear(msgs[:1])
					return consumer.ConsumeSuccess, nil
				}), msgs...)
				if !slices.Equal(msgs, want) {
					t.Errorf("%v, shadow %v: the client's slice was changed", by.mode, shadow)
				}
			})
		}
	}
}

// untidy is an observer that does to the messages that it is shown what it must not; the handler has done nothing to them.
type untidy struct {
	rmqdedup.NopObserver
	t *testing.T
}

func (o untidy) End(_ context.Context, d rmqdedup.Delivery, _ rmqdedup.Result) {
	if slices.Contains(d.Messages, nil) {
		o.t.Error("the observer is shown what the handler left of its slice")
	}
	clear(d.Messages)
}

// One member's claim is lost: the whole call is cancelled, and each key still settles by its own state.
func TestBatchWithOneLostClaim(t *testing.T) {
	for _, tt := range []struct {
		name           string
		answer         consumer.ConsumeResult
		one, two       rmqdedup.Outcome
		want           reply
		lost, suppress int
	}{
		{"success", consumer.ConsumeSuccess, rmqdedup.Done, rmqdedup.Done, acknowledged, 1, 0},
		// The lost key stays its new owner's; the other is free. Sent back beyond a lease, since the new owner has just begun.
		{"failure", consumer.ConsumeRetryLater, rmqdedup.InFlight, rmqdedup.Absent, reply{result: consumer.ConsumeRetryLater, level: levelBeyondAMinute}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{})
				var cause error
				started := make(chan struct{})
				got := later(func() reply {
					return concurrently(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
						close(started)
						<-ctx.Done()
						cause = context.Cause(ctx)
						return tt.answer, nil
					}), orders("1", "2")...)
				})
				<-started
				// Somebody else has it from one moment to the next, as after a failover of the store.
				n.table.Age(keyOf("1"), time.Hour)
				n.claimElsewhere(t, "1", time.Hour, 0)
				wantReply(t, <-got, tt.want)
				var lost *rmqdedup.LostClaimError
				if !errors.As(cause, &lost) || len(lost.Keys) != 1 || lost.Keys[0].Value != "1" {
					t.Errorf("the cause is %v", cause)
				}
				n.wantState(t, "1", tt.one)
				n.wantState(t, "2", tt.two)
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventClaimLost: tt.lost})
			})
		})
	}
}

// Two batches, each of which has what the other waits for at first: claimed messages run and settle before anything is waited for.
func TestBatchesDoNotWaitForEachOther(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 1})
				other := n.another(t, rmqdedup.Config{Mode: by.mode, MaxReconsumeTimes: 1})
				h, started, letGo := blocked()
				last := attempt(2) // so that concurrent deliveries wait as well
				first := later(func() reply { return by.deliver(n.Wrap(h), order("a"), order("x", last)) })
				<-started
				second := later(func() reply { return by.deliver(other.Wrap(h), order("b", last), order("a", last)) })
				<-started
				third := later(func() reply { return by.deliver(other.Wrap(h), order("c", last), order("b", last)) })
				<-started
				letGo()
				for i, c := range []<-chan reply{first, second, third} {
					if got := <-c; got.result != consumer.ConsumeSuccess {
						t.Errorf("batch %d: %s, %v", i, describe(got), got.err)
					}
				}
				for _, id := range []string{"a", "b", "c", "x"} {
					n.wantState(t, id, rmqdedup.Done)
				}
			})
		})
	}
}
