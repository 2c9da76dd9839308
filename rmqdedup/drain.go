package rmqdedup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// drain knows what is under way, and brings it to an end.
type drain struct {
	begun chan struct{} // closed when draining begins: no handler is started from then on
	gone  chan struct{} // closed when the consumer has been shut down: what was held is let go
	ended chan struct{} // closed when the first Shutdown or Close has returned

	mu         sync.Mutex
	beginning  sync.Once
	deliveries int       // in the wrapper, the following two included
	held       int       // waiting for the consumer to be shut down
	heldSince  time.Time // when the first of those was delivered
	calls      map[*call]struct{}
	changed    chan struct{} // closed and made anew whenever a call or delivery ends while draining
}

func newDrain() *drain {
	return &drain{
		begun: make(chan struct{}), gone: make(chan struct{}), ended: make(chan struct{}),
		calls: make(map[*call]struct{}), changed: make(chan struct{}),
	}
}

func (r *drain) started() bool {
	select {
	case <-r.begun:
		return true
	default:
		return false
	}
}

func (r *drain) over() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

// enter and leave enclose a delivery.
func (r *drain) enter() {
	r.mu.Lock()
	r.deliveries++
	r.mu.Unlock()
}

func (r *drain) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliveries--
	r.tell()
}

// start and stop enclose a call of a handler. start says no when draining has begun.
func (r *drain) start(c *call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started() {
		return false
	}
	r.calls[c] = struct{}{}
	return true
}

func (r *drain) stop(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, c)
	r.tell()
}

// hold keeps a delivery, which began at that time, until the consumer has been shut down or its caller has given up.
func (r *drain) hold(ctx context.Context, began time.Time) {
	r.mu.Lock()
	if r.held++; r.heldSince.IsZero() || began.Before(r.heldSince) {
		r.heldSince = began
	}
	r.tell()
	r.mu.Unlock()
	select {
	case <-r.gone:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held--
}

func (r *drain) tell() {
	if r.started() {
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// begin lets no handler start from now on. It says whether it was the first to do so.
func (r *drain) begin() (first bool) {
	r.beginning.Do(func() {
		r.mu.Lock() // no call slips in between a look and its start
		close(r.begun)
		r.mu.Unlock()
		first = true
	})
	return first
}

// answered waits until every delivery is answered or held, and allGone, after that, until all have left but those whose
// handler still runs. With a limit, answered says so early if one has been held for that long.
func (r *drain) answered(ctx context.Context, limit time.Duration) (heldTooLong bool, err error) {
	return r.wait(ctx, limit, func() bool { return r.deliveries == r.held })
}

func (r *drain) allGone(ctx context.Context) error {
	_, err := r.wait(ctx, forever, func() bool { return r.deliveries == len(r.calls) })
	return err
}

func (r *drain) wait(ctx context.Context, limit time.Duration, done func() bool) (heldTooLong bool, err error) {
	for {
		r.mu.Lock()
		yes, changed, since := done(), r.changed, r.heldSince
		r.mu.Unlock()
		if yes {
			return false, nil
		}
		if since.IsZero() {
			since = time.Now()
		}
		timer := time.NewTimer(time.Until(since.Add(limit)))
		select {
		case <-changed:
		case <-timer.C:
			return true, nil
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		}
		timer.Stop()
	}
}

func (r *drain) cancelCalls(why error) (running int) {
	r.mu.Lock()
	calls := make([]*call, 0, len(r.calls))
	for c := range r.calls {
		calls = append(calls, c)
	}
	r.mu.Unlock()
	for _, c := range calls {
		c.cancelByUs(why)
	}
	return len(calls)
}

const (
	bookingTime = 50 * time.Millisecond
	leavingTime = time.Second // for what was held; it does nothing any more but return
)

// Shutdown shuts down the consumer and the wrapper, in the order that loses least. Close the store after it.
//
//  1. No handler is started from now on. Deliveries that come, or wait, are held without an answer, which would cost each message an attempt.
//  2. Handlers that run are waited for; their answers reach the client and their DONE the store. Their claims are renewed as long as they run.
//     (When something held comes near its consume timeout, at which the client would send it back, 4. is done first: they are still waited for,
//     but their answers come too late for the client, and their messages come again and are found DONE.)
//  3. When ctx ends, the contexts of those that still run are cancelled (cause: [ErrDraining]), and their answers held.
//  4. The consumer is shut down: it saves its offsets, and throws away the answers of what is held, which is then let go.
//  5. Pending writes are tried again until ctx ends, and once more in any case. So give ctx a deadline: the store may be away.
//
// It returns an error if the consumer's Shutdown gives one, if ctx ended before the handlers did, or if writes had to be dropped (so that a
// finished message may run again). A handler that ignores its cancelled context goes on; its claim is renewed until it returns, so keep
// the store open as long as you can.
//
// Later calls of Shutdown and [Dedup.Close] wait for the first one, or for their own ctx, and return nil.
func (d *Dedup) Shutdown(ctx context.Context, c interface{ Shutdown() error }) error {
	if c == nil {
		return errors.New("rmqdedup: Shutdown: the consumer is nil; use Close if you have shut it down already")
	}
	return d.shutdown(ctx, c.Shutdown)
}

// Close ends the wrapper of a consumer that has been shut down already, or was never started; [Dedup.Shutdown] does both in the better order. It waits for the
// handlers that run and tries pending writes again, until ctx ends, and then lets go of what was held.
func (d *Dedup) Close(ctx context.Context) error {
	return d.shutdown(ctx, func() error { return nil })
}

func (d *Dedup) shutdown(ctx context.Context, consumerShutdown func() error) error {
	if !d.drain.begin() {
		select {
		case <-d.drain.ended:
		case <-ctx.Done():
		}
		return nil
	}
	defer close(d.drain.ended)
	var errs []error
	giveUp := func(err error) {
		if err == nil {
			return
		}
		if n := d.drain.cancelCalls(ErrDraining); n > 0 {
			errs = append(errs, fmt.Errorf("rmqdedup: %d handlers were still running: %w", n, err))
		}
	}
	limit := forever
	if d.cfg.Mode == Concurrent {
		limit = d.cfg.lastWait()
	}
	running, err := d.drain.answered(ctx, limit)
	giveUp(err)
	// The client books an answer after the listener has returned, without a sign when it is done. What it does not book in time comes again, and is
	// found DONE.
	bookkeeping := time.NewTimer(bookingTime)
	<-bookkeeping.C
	if err := consumerShutdown(); err != nil {
		errs = append(errs, fmt.Errorf("rmqdedup: shutting down the consumer: %w", err))
	}
	close(d.drain.gone)
	if running {
		_, err := d.drain.answered(ctx, forever)
		giveUp(err)
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavingTime)
	defer cancel()
	_ = d.drain.allGone(leaving)
	_ = d.pending.flush(ctx) // the store has what is left of the time, and one more try in any case
	d.pending.close()
	if n := d.pending.dropped(); n > 0 {
		errs = append(errs, fmt.Errorf("rmqdedup: %d pending writes were dropped, since the store did not take them", n))
	}
	d.keeper.nudge()
	return errors.Join(errs...)
}
