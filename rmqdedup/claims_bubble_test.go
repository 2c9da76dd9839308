package rmqdedup_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// What a handler finds in its context.
func TestClaimsInContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if claims := rmqdedup.Claims(context.Background()); claims != nil {
			t.Errorf("outside of a handler: %+v", claims)
		}
		n := newNode(t, rmqdedup.Config{NoKey: rmqdedup.NoKeyUnprotected})
		n.claimElsewhere(t, "orphan", time.Second, time.Hour)
		time.Sleep(2 * time.Second)
		var claims []rmqdedup.Claim
		type mine struct{}
		ctx := context.WithValue(context.Background(), mine{}, "kept")
		_, _ = n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			inner, cancel := context.WithCancel(context.WithValue(ctx, mine{}, ctx.Value(mine{})))
			defer cancel()
			if inner.Value(mine{}) != "kept" {
				t.Error("the context lacks what the client's has")
			}
			claims = rmqdedup.Claims(inner)
			return consumer.ConsumeSuccess, nil
		})(ctx, order("1", attempt(3)), order("orphan"), order(""))
		owners := n.callsOf(rmqdedup.OpAcquire)[0]
		want := []rmqdedup.Claim{
			{Key: keyOf("1"), Owner: owners[0].Owner, MessageID: "uniq-1", Attempt: 3},
			{Key: keyOf("orphan"), Owner: owners[1].Owner, MessageID: "uniq-orphan", Takeover: true},
			{MessageID: "uniq-"},
		}
		if len(claims) != 3 {
			t.Fatalf("%d claims for three messages", len(claims))
		}
		for i := range want {
			if claims[i] != want[i] {
				t.Errorf("claim %d is %+v, want %+v", i, claims[i], want[i])
			}
		}
		if owners[0].Owner == owners[1].Owner || owners[0].Owner.IsZero() {
			t.Error("the owners of two claims are the same")
		}
	})
}

// A goroutine that a handler leaves behind may ask for the claims at any time: there are none any more.
func TestClaimsAfterTheHandler(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Shadow: shadow})
			var left context.Context
			var wait sync.WaitGroup
			concurrently(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				left = ctx
				wait.Go(func() {
					for range 1000 {
						rmqdedup.Claims(ctx)
					}
				})
				return consumer.ConsumeRetryLater, nil
			}), order("1"))
			wait.Wait()
			if claims := rmqdedup.Claims(left); claims != nil {
				t.Errorf("after the handler: %+v", claims)
			}
		})
	}
}
