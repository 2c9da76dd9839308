package rmqdedup_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// What a handler may answer, what the client is told, and whether it was success.
func TestWhatIsSuccess(t *testing.T) {
	tests := []struct {
		handler    consumer.ConsumeResult
		concurrent consumer.ConsumeResult
		ordered    consumer.ConsumeResult
	}{
		{consumer.ConsumeSuccess, consumer.ConsumeSuccess, consumer.ConsumeSuccess},
		{consumer.ConsumeRetryLater, consumer.ConsumeRetryLater, consumer.SuspendCurrentQueueAMoment},
		{consumer.Commit, consumer.ConsumeRetryLater, consumer.ConsumeSuccess},
		{consumer.Rollback, consumer.ConsumeRetryLater, consumer.SuspendCurrentQueueAMoment},
		{consumer.SuspendCurrentQueueAMoment, consumer.ConsumeRetryLater, consumer.SuspendCurrentQueueAMoment},
		{consumer.ConsumeResult(99), consumer.ConsumeRetryLater, consumer.SuspendCurrentQueueAMoment},
	}
	for _, tt := range tests {
		for _, by := range deliverers {
			for _, err := range []error{nil, errBusiness} {
				t.Run(fmt.Sprintf("%s %v %v", resultName(tt.handler), by.mode, err), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n := newNode(t, rmqdedup.Config{Mode: by.mode})
						got := by.deliver(n.Wrap(answer(tt.handler, err)), order("1"))
						want := tt.concurrent
						if by.mode == rmqdedup.Ordered {
							want = tt.ordered
						}
						if got.result != want || !errors.Is(got.err, err) {
							t.Errorf("the client is told %s, %v; want %s, %v", resultName(got.result), got.err, resultName(want), err)
						}
						state, withError, ran := rmqdedup.Absent, 0, rmqdedup.Result{Answer: want, Err: err, Ran: 1, Failed: 1}
						if want == consumer.ConsumeSuccess {
							state, ran.Failed = rmqdedup.Done, 0
							if err != nil {
								withError = 1
							}
						}
						n.wantState(t, "1", state)
						n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventSuccessWithError: withError, rmqdedup.EventContradiction: 0})
						if last := n.heard.last(); last != ran {
							t.Errorf("the result is %+v, want %+v", last, ran)
						}
					})
				})
			}
		}
	}
}

func TestDoneIsNotRunAgain(t *testing.T) {
	for _, by := range deliverers {
		t.Run(by.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: by.mode})
				var r runs
				listen := n.Wrap(r.succeed())
				for i := range int32(3) {
					if got := by.deliver(listen, order("1", attempt(i))); got.result != consumer.ConsumeSuccess || got.err != nil {
						t.Errorf("delivery %d: %s, %v", i, describe(got), got.err)
					}
				}
				r.want(t, "1")
				told := n.heard.of(rmqdedup.EventSuppressed)
				if len(told) != 2 {
					t.Fatalf("%d were told as suppressed", len(told))
				}
				// "Duplicate of X, done at T".
				if e := told[0]; e.Record == nil || e.Record.MessageID != "uniq-1" || !e.Record.DoneAt.Equal(time.Now()) || e.Key.Value != "1" || e.Group != group {
					t.Errorf("told %+v, record %+v", e, e.Record)
				}
				if last := n.heard.last(); last.Suppressed != 1 || last.Ran != 0 {
					t.Errorf("the result is %+v", last)
				}
			})
		})
	}
}

func TestDoneIsForgottenAfterRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Retention: 100 * time.Hour})
		var r runs
		listen := n.Wrap(r.succeed())
		concurrently(listen, order("1"))
		time.Sleep(100*time.Hour - time.Second)
		concurrently(listen, order("1"))
		r.want(t, "1")
		time.Sleep(time.Second)
		concurrently(listen, order("1"))
		r.want(t, "1, 1")
	})
}

// Same key, another body: the second is suppressed, and told.
func TestAnotherBodyIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		var r runs
		listen := n.Wrap(r.succeed())
		concurrently(listen, order("1"))
		concurrently(listen, order("1", withBody("another"), sentAs("again")))
		r.want(t, "1")
		told := n.heard.of(rmqdedup.EventBodyDiffers)
		if len(told) != 1 || told[0].Record.MessageID != "uniq-1" || told[0].Message.MsgId != "again" {
			t.Errorf("told %+v", told)
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventSuppressed: 1})
	})
}

func TestCase18Panic(t *testing.T) {
	const wrapping = "an error"
	for _, by := range deliverers {
		for name, value := range map[string]any{"text": "boom", wrapping: errBusiness, "nil": nil} {
			t.Run(by.mode.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, rmqdedup.Config{Mode: by.mode})
					var r runs
					got := by.deliver(n.Wrap(r.then(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) { panic(value) })), order("1"))
					var caught *rmqdedup.PanicError
					if got.result != by.retry || !errors.As(got.err, &caught) {
						t.Fatalf("the client is told %s, %v", describe(got), got.err)
					}
					if by.mode == rmqdedup.Ordered && got.suspend != 1000 {
						t.Errorf("the queue pauses for %d ms", got.suspend)
					}
					if value != nil && caught.Value != value || errors.Is(got.err, errBusiness) != (name == wrapping) {
						t.Errorf("the panic's value is %v", caught.Value)
					}
					if !strings.Contains(caught.Error(), "TestCase18Panic") {
						t.Errorf("the error lacks the handler's stack: %v", caught)
					}
					n.wantState(t, "1", rmqdedup.Absent)
					n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventPanic: 1})
					if last := n.heard.last(); last.Ran != 1 || last.Failed != 1 {
						t.Errorf("the result is %+v", last)
					}
					// Attempt 2 runs, and what comes behind it.
					listen := n.Wrap(r.succeed())
					for _, m := range []*primitive.MessageExt{order("1", attempt(1)), order("2")} {
						if got := by.deliver(listen, m); got.result != consumer.ConsumeSuccess {
							t.Errorf("afterwards: %s", describe(got))
						}
					}
					r.want(t, "1, 1, 2")
				})
			})
		}
	}
}

// A handler that ends its goroutine, as testing's FailNow does, gives its claim back: nobody would end its renewal.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			concurrently(n.Wrap(func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				runtime.Goexit()
				return consumer.ConsumeSuccess, nil
			}), order("1"))
			t.Error("the listener returned")
		}()
		<-gone
		n.wantState(t, "1", rmqdedup.Absent)
	})
}

func TestSuspendTime(t *testing.T) {
	tests := []struct {
		name  string
		pause time.Duration
		set   int // by the handler; -1: left alone
		want  int
	}{
		{"default", 0, -1, 1000},
		{"configured", 2500 * time.Millisecond, -1, 2500},
		{"below the client's resolution", 10 * time.Microsecond, -1, 1},
		{"the handler's", 0, 70, 70},
		{"none, as the handler wants it", 0, 0, 0},
		{"negative", 0, -70, 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Mode: rmqdedup.Ordered, SuspendPause: tt.pause})
				listen := n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
					c, ok := primitive.GetOrderlyCtx(ctx)
					if !ok {
						t.Fatal("the handler's context does not have the client's")
					}
					c.SuspendCurrentQueueTimeMillis = tt.set
					return consumer.Rollback, nil
				})
				wantReply(t, orderly(listen, order("1")), reply{result: consumer.SuspendCurrentQueueAMoment, suspend: tt.want})
			})
		})
	}
}

// A delivery without messages is answered, though the client makes none.
func TestNoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		var r runs
		wantReply(t, concurrently(n.Wrap(r.succeed())), acknowledged)
		r.want(t, "")
	})
}

// A listener that something else than the client calls is served in the configured mode.
func TestWithoutTheClientsContext(t *testing.T) {
	for _, by := range deliverers {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Mode: by.mode})
			var r runs
			result, err := n.Wrap(r.fail())(context.Background(), order("1"))
			if result != by.retry || !errors.Is(err, errBusiness) {
				t.Errorf("%v: %s, %v", by.mode, resultName(result), err)
			}
		})
	}
}

func TestCase21LocalRerun(t *testing.T) {
	// The send-back failed; the client runs the same message objects again, with one attempt more.
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		var r runs
		m := order("1")
		wantReply(t, concurrently(n.Wrap(r.fail()), m), reply{result: consumer.ConsumeRetryLater, err: errBusiness})
		m.ReconsumeTimes++
		time.Sleep(5 * time.Second)
		wantReply(t, concurrently(n.Wrap(r.succeed()), m), acknowledged)
		r.want(t, "1, 1")
	})
}

func TestCase22OneMessageAtTwoOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Key: rmqdedup.MessageID})
		var r runs
		h, started, letGo := blocked()
		listen := n.Wrap(r.then(h))
		at := func(offset int64) func(*primitive.MessageExt) {
			return func(m *primitive.MessageExt) { m.QueueOffset, m.OffsetMsgId = offset, fmt.Sprint("offset-", offset) }
		}
		first := later(func() reply { return concurrently(listen, order("1", at(7))) })
		<-started
		got := concurrently(listen, order("1", at(8)))
		wantReply(t, got, reply{result: consumer.ConsumeRetryLater, level: levelBeyondAMinute})
		letGo()
		wantReply(t, <-first, acknowledged)
		wantReply(t, concurrently(listen, order("1", at(8), attempt(1))), acknowledged)
		r.want(t, "1")
	})
}

// levelBeyondAMinute is 2m: the first delay that is longer than the default lease.
const levelBeyondAMinute = 6

func TestCase23RestartReplaysAThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		var before, after runs
		listen := n.Wrap(before.succeed())
		for i := range 1000 {
			wantReply(t, concurrently(listen, order(fmt.Sprint(i))), acknowledged)
		}
		listen = n.another(t, rmqdedup.Config{}).Wrap(after.succeed())
		for i := 0; i < 1000; i += 10 {
			batch := make([]*primitive.MessageExt, 10)
			for j := range batch {
				batch[j] = order(fmt.Sprint(i + j))
			}
			wantReply(t, concurrently(listen, batch...), acknowledged)
		}
		if len(before.calls) != 1000 {
			t.Errorf("%d calls at first", len(before.calls))
		}
		after.want(t, "")
	})
}

func TestCase26DeadLetterIsResent(t *testing.T) {
	// An operator sends dead letters to the topic again: what had failed runs, what was DONE does not.
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{MaxReconsumeTimes: 1})
		var r runs
		wantReply(t, concurrently(n.Wrap(r.fail()), order("failed", attempt(1))), reply{result: consumer.ConsumeRetryLater, err: errBusiness})
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("done", attempt(1))), acknowledged)
		listen := n.Wrap(r.succeed())
		for _, id := range []string{"failed", "done"} {
			wantReply(t, concurrently(listen, order(id)), acknowledged)
		}
		r.want(t, "failed, done, failed")
	})
}
