package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// beginShutdown shuts a member down, one of whose handlers runs, and returns when that is being waited for.
func (m *member) beginShutdown(ctx context.Context) (ended <-chan error) {
	m.s.Helper()
	watched := &watchedContext{Context: ctx, asked: make(chan struct{})}
	result := make(chan error, 1)
	go func() { result <- m.shutdown(watched) }()
	select {
	case <-watched.asked:
	case err := <-result:
		m.s.Fatalf("%s is shut down (%v) though a handler runs", m.name, err)
	}
	return result
}

// A watchedContext tells when somebody waits for its end.
type watchedContext struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (c *watchedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}

// Case 24: a shutdown in mid-handler waits for it. Its success is acknowledged and DONE, so that nothing runs again after a restart.
func TestShutdownInMidHandler(t *testing.T) { play(t, setting{}, shutdownInMidHandler) }
func TestOrderedShutdownInMidHandler(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered}, shutdownInMidHandler)
}

func shutdownInMidHandler(s *story) {
	gate := make(chan struct{})
	a := s.join("a", s.does(hold(gate)))
	s.send("order-1")
	s.await(started, "order-1")
	ended := a.beginShutdown(s.ctx)
	close(gate)
	s.must(<-ended)
	s.want(1, acknowledged, "order-1")
	if s.state("order-1") != rmqdedup.Done {
		s.Errorf("order-1 is %v", s.state("order-1"))
	}
	s.join("a", s.does(succeed))
	s.send("order-2")
	s.await(acknowledged, "order-2")
	s.want(1, started, "order-1")
}

// A shutdown costs the messages that the client has cached, or that wait in the listener, no attempt: after a restart they run as if for the
// first time.
func TestShutdownCostsNoAttempt(t *testing.T) { play(t, setting{}, shutdownCostsNoAttempt) }
func TestOrderedShutdownCostsNoAttempt(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered}, shutdownCostsNoAttempt)
}

func shutdownCostsNoAttempt(s *story) {
	const n = 10
	name := func(i int) string { return fmt.Sprintf("order-%d", i) }
	for i := range n {
		s.send(name(i)) // all there before the consumer is, so that one pull brings them
	}
	gate := make(chan struct{})
	a := s.join("a", s.does(hold(gate)), func(r *role) { r.options = append(r.options, consumer.WithConsumeGoroutineNums(1)) })
	s.await(started, "")
	ended := a.beginShutdown(s.ctx)
	close(gate)
	s.must(<-ended)
	s.want(1, started, "")
	s.join("b", s.does(succeed))
	for i := range n {
		s.await(succeeded, name(i))
	}
	for _, e := range s.journal.all(started, "") {
		if e.attempt != 0 {
			s.Errorf("%s ran as attempt %d", e.name, e.attempt)
		}
	}
	again, err := s.broker.stored(s.ctx, s.retryTopic())
	if s.must(err); again != 0 {
		s.Errorf("%d messages were sent back", again)
	}
}

// A message that waits at its last attempt when its consumer is shut down is not dead-lettered for that.
func TestShutdownAtTheLastAttempt(t *testing.T) { play(t, setting{}, shutdownAtTheLastAttempt) }
func TestOrderedShutdownAtTheLastAttempt(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered}, shutdownAtTheLastAttempt)
}

func shutdownAtTheLastAttempt(s *story) {
	once := func(r *role) { r.MaxReconsumeTimes, r.InFlightWait = rmqdedup.NoReconsume, 200*time.Millisecond }
	other := s.rival("busy", lease)
	s.send("busy")
	a := s.join("a", s.does(succeed), once)
	s.await(rmqdedup.EventLastAttempt, "busy")
	a.leave(s.ctx)
	s.want(1, letGo, "busy")
	s.join("b", s.does(succeed), once)
	other.finishes()
	s.await(acknowledged, "busy")
	s.successes["busy"] = 0
}

// When a shutdown's time is over its handlers' contexts are cancelled. A handler that heeds that gives its message back without an attempt.
func TestShutdownCancelsHandlers(t *testing.T) { play(t, setting{}, shutdownCancelsHandlers) }
func TestOrderedShutdownCancelsHandlers(t *testing.T) {
	play(t, setting{mode: rmqdedup.Ordered}, shutdownCancelsHandlers)
}

func shutdownCancelsHandlers(s *story) {
	a := s.join("a", s.does(hold(nil), succeed))
	s.send("order-1")
	s.await(started, "order-1")
	patience, lose := context.WithCancel(s.ctx)
	ended := a.beginShutdown(patience)
	lose()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		s.Errorf("Shutdown returned %v, want one that says that a handler was still running", err)
	}
	s.await(letGo, "order-1")
	if e := s.journal.all(failed, "order-1")[0]; e.detail != rmqdedup.ErrDraining.Error() {
		s.Errorf("the handler's context was cancelled because of %q", e.detail)
	}
	s.join("a", s.does(succeed))
	s.await(acknowledged, "order-1")
	if e := s.journal.all(started, "order-1")[1]; e.attempt != 0 {
		s.Errorf("the message came again as attempt %d", e.attempt)
	}
}

// A handler that does not heed its context goes on after the shutdown. Its claim is renewed until it returns, so that nobody runs the message
// beside it; and then it is DONE.
func TestHandlerOutlivesTheShutdown(t *testing.T) {
	play(t, setting{}, func(s *story) {
		gate := make(chan struct{})
		b := s.join("b", s.does(deaf(gate)))
		s.send("order-1")
		s.await(started, "order-1")
		patience, lose := context.WithCancel(s.ctx)
		ended := b.beginShutdown(patience)
		lose()
		if <-ended == nil {
			s.Error("Shutdown returned no error though a handler was still running")
		}
		s.join("a", s.does(succeed)) // whose name stands before that of the one that has left, see instance
		s.await(sentBack, "order-1")
		s.await(renewed, "order-1", 4)
		close(gate)
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(1, started, "order-1")
	})
}
