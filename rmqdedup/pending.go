package rmqdedup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ErrPendingFull is why no claim is made while [Config.MaxPendingWrites] writes wait for the store.
var ErrPendingFull = errors.New("rmqdedup: too many writes are waiting for the store")

// A write is a completion, release or abandonment that failed and is tried again.
type write struct {
	op    Op
	req   Request
	claim *claim // kept, that is renewed, until a completion lands; nil for the others
}

// pending tries failed writes again in the background, in one goroutine that is there only while there are any.
//
// The claims of pending completions are renewed meanwhile, so that a duplicate goes on finding them in flight. Those of pending releases are not: there the
// lease is to pass, so that the redelivery runs even if the release never lands.
type pending struct {
	d    *Dedup
	stop chan struct{} // closed to give up

	mu      sync.Mutex
	queue   []*write
	busy    bool          // the goroutine is there
	idle    chan struct{} // closed when it ends
	stopped bool
	lost    int // writes dropped since close
}

const (
	pendingBatch   = 64
	backoffFirst   = 50 * time.Millisecond
	backoffLongest = 5 * time.Second
)

func newPending(d *Dedup) *pending {
	return &pending{d: d, stop: make(chan struct{})}
}

// backoff is the pause after that many failures, with a random part so that members of a group do not come in step.
func backoff(failures int, longest time.Duration) time.Duration {
	b := longest
	if failures < 16 {
		b = min(backoffFirst<<failures, longest)
	}
	return b/2 + rand.N(b/2+1) //nolint:gosec // spreads load, hides nothing
}

// full says whether the bound is reached.
func (p *pending) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) >= p.d.cfg.MaxPendingWrites
}

// dropped is how many completions and releases were given up since close.
func (p *pending) dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *pending) add(w *write, why error) {
	ctx := context.Background()
	p.mu.Lock()
	var dropped *write
	stopped := p.stopped
	switch {
	case stopped:
		dropped = w
	case len(p.queue) >= p.d.cfg.MaxPendingWrites && w.op == OpAbandon:
		dropped = w // the lease ends it as well
	case len(p.queue) >= p.d.cfg.MaxPendingWrites && p.d.cfg.Outage == Open:
		dropped, p.queue = p.queue[0], append(p.queue[1:], w)
	default:
		// Under Closed the bound stops new claims; what still comes is bounded by the handlers that run.
		p.queue = append(p.queue, w)
	}
	if !p.busy && len(p.queue) > 0 {
		p.busy, p.idle = true, make(chan struct{})
		go p.run()
	}
	p.mu.Unlock()
	if dropped != w {
		p.d.event(ctx, Event{Kind: EventWritePending, Key: w.req.Key, Owner: w.req.Owner, Op: w.op, Err: why})
	}
	switch {
	case dropped == nil:
	case stopped:
		p.drop(dropped, fmt.Errorf("the wrapper is closed: %w", why))
	default:
		p.drop(dropped, fmt.Errorf("%w (MaxPendingWrites: %d)", ErrPendingFull, p.d.cfg.MaxPendingWrites))
	}
}

func (p *pending) drop(w *write, why error) {
	if w.claim != nil {
		p.d.keeper.remove(w.claim)
	}
	p.mu.Lock()
	if p.stopped && w.op != OpAbandon {
		p.lost++
	}
	p.mu.Unlock()
	p.d.event(context.Background(), Event{Kind: EventWriteDropped, Key: w.req.Key, Owner: w.req.Owner, Op: w.op, Err: why})
}

func (p *pending) run() {
	failures := 0
	for {
		timer := time.NewTimer(backoff(failures, backoffLongest))
		select {
		case <-timer.C:
		case <-p.stop:
			timer.Stop()
		}
		batch, lastTry := p.take()
		away, err := p.try(batch)
		if err != nil {
			failures++
		} else {
			failures = 0
		}
		if lastTry && err != nil {
			for _, w := range p.giveUp(batch, away) {
				p.drop(w, fmt.Errorf("the wrapper was closed before the store answered: %w", err))
			}
		}
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.busy = false
			close(p.idle)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

// take returns what is tried next: the first of the queue, with those behind it that want the same operation. They stay in the queue. From
// close on it is their last try.
func (p *pending) take() (batch []*write, lastTry bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.queue {
		if len(batch) == pendingBatch {
			break
		}
		if len(batch) == 0 || w.op == batch[0].op {
			batch = append(batch, w)
		}
	}
	return batch, p.stopped
}

// giveUp takes out of the queue and returns what is left of a batch after its last try, or everything if the store is away.
func (p *pending) giveUp(batch []*write, everything bool) (given []*write) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.queue
	p.queue = nil
	for _, w := range rest {
		if everything || slices.Contains(batch, w) {
			given = append(given, w)
		} else {
			p.queue = append(p.queue, w)
		}
	}
	return given
}

// try writes a batch and takes what landed out of the queue; what did not goes to its end. The error is one of those met; away says that
// the whole call failed.
func (p *pending) try(batch []*write) (away bool, failed error) {
	ctx := context.Background()
	reqs := make([]Request, len(batch))
	for i, w := range batch {
		reqs[i] = w.req
		if w.claim != nil {
			p.d.keeper.settling(w.claim, true)
		}
	}
	answers, err := p.d.do(ctx, batch[0].op, reqs)
	landed := make(map[*write]bool, len(batch)) // what was tried, and whether it landed
	for i, w := range batch {
		switch {
		case err != nil:
			failed = err
		case answers[i].Err != nil:
			failed = answers[i].Err
		default:
			landed[w] = true
			if w.claim != nil && !p.d.keeper.remove(w.claim) && answers[i].Outcome == Lost {
				p.d.event(ctx, Event{Kind: EventClaimLost, Key: w.req.Key, Owner: w.req.Owner, Err: ErrTakenAway})
			}
			p.d.event(ctx, Event{Kind: EventWriteLanded, Key: w.req.Key, Owner: w.req.Owner, Op: w.op})
			continue
		}
		landed[w] = false
		if w.claim != nil {
			p.d.keeper.settling(w.claim, false)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var front, back []*write
	for _, w := range p.queue {
		done, tried := landed[w]
		switch {
		case done:
		case tried:
			back = append(back, w)
		default:
			front = append(front, w)
		}
	}
	p.queue = slices.Concat(front, back)
	return err != nil, failed
}

// flush waits until nothing is pending, or until ctx ends.
func (p *pending) flush(ctx context.Context) error {
	for {
		p.mu.Lock()
		busy, idle := p.busy, p.idle
		p.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close gives every pending write one last try, drops what fails, and returns when the goroutine has ended.
func (p *pending) close() {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.stop)
	}
	busy, idle := p.busy, p.idle
	p.mu.Unlock()
	if busy {
		<-idle
	}
}
