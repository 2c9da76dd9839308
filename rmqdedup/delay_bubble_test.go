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

// What is in flight is sent back at a level that outlasts the claim, but never at a lower one than the broker would choose.
func TestInFlightDelay(t *testing.T) {
	const s, m = time.Second, time.Minute
	tests := []struct {
		name    string
		left    time.Duration
		attempt int32
		levels  []time.Duration
		want    int
	}{
		{name: "the broker's choice at first", left: 500 * time.Millisecond, want: 3},
		{name: "longer than the claim", left: 29 * s, want: 4},
		{name: "as long as the claim is too short", left: 30 * s, want: 5},
		{name: "a minute", left: m, want: 6},
		{name: "one millisecond less than a minute", left: m - time.Millisecond, want: 5},
		{name: "the broker's choice later on", left: 30 * s, attempt: 5, want: 8},
		{name: "never above the highest", left: 3 * time.Hour, want: 18},
		{name: "nor for many attempts", left: s, attempt: 15, want: 18},
		{name: "other levels", left: 2 * s, attempt: 0, levels: []time.Duration{s, 2 * s, 3 * s, 4 * s}, want: 3},
		{name: "other levels, longer", left: 3 * s, attempt: 0, levels: []time.Duration{s, 2 * s, 3 * s, 4 * s}, want: 4},
		{name: "fewer than the broker's first", left: s / 2, attempt: 0, levels: []time.Duration{s, 2 * s}, want: 2},
		{name: "levels that do not rise", left: 4 * s, attempt: 0, levels: []time.Duration{9 * s, 2 * s, 3 * s}, want: 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{DelayLevels: tt.levels})
				n.claimElsewhere(t, "1", tt.left, 0)
				var r runs
				wantReply(t, concurrently(n.Wrap(r.succeed()), order("1", attempt(tt.attempt))), reply{result: consumer.ConsumeRetryLater, level: tt.want})
				r.want(t, "")
				if told := n.heard.of(rmqdedup.EventInFlight); len(told) != 1 || told[0].Left != tt.left || told[0].Record == nil {
					t.Errorf("told %+v", told)
				}
				if last := n.heard.last(); last.InFlight != 1 || last.Ran != 0 {
					t.Errorf("the result is %+v", last)
				}
			})
		})
	}
}

// Of several that are in flight the longest claim counts, and of several attempts the highest.
func TestInFlightDelayOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.claimElsewhere(t, "1", 100*time.Second, 0)
		n.claimElsewhere(t, "2", 10*time.Second, 0)
		listen := n.Wrap(answer(consumer.ConsumeSuccess, nil))
		wantReply(t, concurrently(listen, orders("1", "2")...), reply{result: consumer.ConsumeRetryLater, level: 6})
		wantReply(t, concurrently(listen, order("1"), order("2", attempt(7)), order("3", attempt(1))), reply{result: consumer.ConsumeRetryLater, level: 10})
	})
}

// A handler's own delay level stands when it saw every message of the delivery, and not otherwise.
func TestHandlersDelay(t *testing.T) {
	setting := func(level int) rmqdedup.Handler {
		return func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			c, ok := primitive.GetConcurrentlyCtx(ctx)
			if !ok {
				panic("the handler's context does not have the client's")
			}
			c.DelayLevelWhenNextConsume = level
			return consumer.ConsumeRetryLater, nil
		}
	}
	tests := []struct {
		name    string
		set     int
		prepare func(*testing.T, *node)
		msgs    []*primitive.MessageExt
		want    int
		runs    string
	}{
		{name: "its own", set: 9, msgs: orders("1"), want: 9, runs: "1"},
		{name: "the broker's", set: 0, msgs: orders("1"), want: 0, runs: "1"},
		{name: "a lower one than the broker's", set: 1, msgs: []*primitive.MessageExt{order("1", attempt(8))}, want: 1, runs: "1"},
		{name: "straight to the dead-letter queue", set: -1, msgs: orders("1"), want: -1, runs: "1"},
		{name: "of a whole batch", set: -1, msgs: orders("1", "2", "3"), want: -1, runs: "1 2 3"},
		{name: "not for a batch-mate that was done", set: -1, msgs: orders("done", "1"), want: 0, runs: "1"},
		{name: "not for a batch-mate in flight", set: -1, msgs: orders("busy", "1"), want: 6, runs: "1"},
		{name: "nor a high one", set: 2, msgs: []*primitive.MessageExt{order("busy", attempt(4)), order("1", attempt(7))}, want: 10, runs: "1"},
		{name: "not for a repeated message", set: -1, msgs: orders("1", "1"), want: 0, runs: "1"},
		{name: "not for a batch-mate that could not be claimed", set: -1, msgs: orders("away", "1"), want: 0, runs: "1"},
		{name: "not beside a message without a key", set: 4, msgs: orders("", "1"), want: 4, runs: " 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{NoKey: rmqdedup.NoKeyUnprotected})
				var before, r runs
				wantReply(t, concurrently(n.Wrap(before.succeed()), order("done")), acknowledged)
				n.claimElsewhere(t, "busy", 90*time.Second, 0)
				n.set(awayFor("away"))
				wantReply(t, concurrently(n.Wrap(r.then(setting(tt.set))), tt.msgs...), reply{result: consumer.ConsumeRetryLater, level: tt.want})
				r.want(t, tt.runs)
			})
		})
	}
}

// The wrapper's own level is worked out from the attempts that the messages came with.
func TestHandlerCannotChangeTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.claimElsewhere(t, "busy", time.Second, 0)
		vandal := func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			msgs[0].ReconsumeTimes = 9
			return consumer.ConsumeSuccess, nil
		}
		msgs := []*primitive.MessageExt{order("1", attempt(2)), order("busy", attempt(1))}
		wantReply(t, concurrently(n.Wrap(vandal), msgs...), reply{result: consumer.ConsumeRetryLater, level: 5})
	})
}

// A short lease that is renewed again and again would burn the retries at the level that outlasts it.
func TestRenewedLeaseDoesNotBurnRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Lease: time.Second})
		h, started, letGo := blocked()
		first := later(func() reply { return concurrently(n.Wrap(h), order("1")) })
		<-started
		listen := n.another(t, rmqdedup.Config{Lease: time.Second}).Wrap(answer(consumer.ConsumeSuccess, nil))
		for i := range int32(10) {
			got := concurrently(listen, order("1", attempt(i)))
			wantReply(t, got, reply{result: consumer.ConsumeRetryLater, level: 3 + int(i)})
			time.Sleep(rmqdedup.DefaultDelayLevels()[got.level-1])
		}
		letGo()
		wantReply(t, <-first, acknowledged)
	})
}

// Case 17: the process died after claiming. The redelivery is retried until the claim ends, then runs; nothing is dropped.
func TestCase17CrashAfterClaiming(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			n.claimElsewhere(t, "1", time.Minute, grace) // and nobody is there any more
			var r runs
			listen := n.Wrap(r.succeed())
			got := concurrently(listen, order("1"))
			wantReply(t, got, reply{result: consumer.ConsumeRetryLater, level: levelBeyondAMinute})
			r.want(t, "")
			time.Sleep(rmqdedup.DefaultDelayLevels()[got.level-1])
			wantReply(t, concurrently(listen, order("1", attempt(1))), acknowledged)
			r.want(t, "1")
			takeovers := 0
			if grace > 0 {
				takeovers = 1
			}
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventTakenOver: takeovers})
			if last := n.heard.last(); last.TakenOver != takeovers || last.Ran != 1 {
				t.Errorf("the result is %+v", last)
			}
			n.wantState(t, "1", rmqdedup.Done)
		})
	}
}

// Case 17: the process died between success and DONE. Without a checker the message runs again, as documented.
func TestCase17CrashBeforeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(away, rmqdedup.OpComplete, rmqdedup.OpRenew))
		var r runs
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), acknowledged)
		// The offset was not saved either, and the one who would write DONE is gone.
		next := n.another(t, rmqdedup.Config{})
		wantReply(t, concurrently(next.Wrap(r.succeed()), order("1")), reply{result: consumer.ConsumeRetryLater, level: levelBeyondAMinute})
		time.Sleep(2 * time.Minute)
		wantReply(t, concurrently(next.Wrap(r.succeed()), order("1", attempt(1))), acknowledged)
		r.want(t, "1, 1")
	})
}

// A failed run is sent back at the broker's level, and so runs again.
func TestFailureIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		var r runs
		wantReply(t, concurrently(n.Wrap(r.fail()), order("1")), reply{result: consumer.ConsumeRetryLater, err: errBusiness})
		n.wantState(t, "1", rmqdedup.Absent)
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1", attempt(1))), acknowledged)
		r.want(t, "1, 1")
		n.wantState(t, "1", rmqdedup.Done)
	})
}
