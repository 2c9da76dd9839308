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

// Shutting down gives pending writes the time that is left, and tells of what had to be dropped.
func TestShutdownFlushesPending(t *testing.T) {
	t.Run("lands", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			n.set(only(away, rmqdedup.OpComplete))
			concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1"))
			time.AfterFunc(20*time.Second, func() { n.set(nil) })
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			begin := time.Now()
			if err := n.Close(ctx); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took < 20*time.Second || took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			n.wantState(t, "1", rmqdedup.Done)
		})
	})
	t.Run("is dropped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			n.set(only(away, rmqdedup.OpComplete, rmqdedup.OpRelease))
			concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), orders("1", "2")...)
			concurrently(n.Wrap(answer(consumer.ConsumeRetryLater, nil)), order("3"))
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := n.Close(ctx)
			if err == nil || !strings.Contains(err.Error(), "3 pending writes were dropped") {
				t.Errorf("Close returned %v", err)
			}
			n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWriteDropped: 3})
			// The claims are renewed no more.
			time.Sleep(time.Minute)
			n.wantState(t, "1", rmqdedup.Absent)
		})
	})
	t.Run("one more try when there is no time left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{})
			n.set(only(away, rmqdedup.OpComplete))
			concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1"))
			time.Sleep(time.Minute) // the next try would be seconds away
			n.set(nil)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := n.Close(ctx); err != nil {
				t.Error(err)
			}
			n.wantState(t, "1", rmqdedup.Done)
		})
	})
}

// What a stubborn handler leaves after the end cannot be written later: it is dropped at once, and told.
func TestWriteAfterTheEndIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		resume := make(chan struct{})
		got := later(func() reply {
			return concurrently(n.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				<-resume
				return consumer.ConsumeSuccess, nil
			}), order("1"))
		})
		synctest.Wait()
		_ = shutdown(n, time.Second, func() error { return nil })
		n.set(only(away, rmqdedup.OpComplete))
		close(resume)
		<-got
		dropped := n.heard.of(rmqdedup.EventWriteDropped)
		if len(dropped) != 1 || dropped[0].Op != rmqdedup.OpComplete || !errors.Is(dropped[0].Err, errAway) || errors.Is(dropped[0].Err, rmqdedup.ErrPendingFull) {
			t.Errorf("dropped %+v", dropped)
		}
		time.Sleep(time.Minute)
		n.wantState(t, "1", rmqdedup.Absent)
	})
}

// At the end each write has one more try: what the store refuses is dropped, the rest still lands, of every kind.
func TestLastTryOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		n.set(only(away, rmqdedup.OpComplete, rmqdedup.OpRelease))
		concurrently(n.Wrap(answer(consumer.ConsumeSuccess, nil)), orders("1", "2")...)
		concurrently(n.Wrap(answer(consumer.ConsumeRetryLater, nil)), orders("3", "4")...)
		time.Sleep(30 * time.Second)
		n.set(awayFor("1", "3"))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := n.Close(ctx); err == nil || !strings.Contains(err.Error(), "2 pending writes were dropped") {
			t.Errorf("Close returned %v", err)
		}
		n.wantState(t, "2", rmqdedup.Done)
		n.wantState(t, "4", rmqdedup.Absent)
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventWriteDropped: 2, rmqdedup.EventWriteLanded: 2})
	})
}
