package rmqdedup

import (
	"context"
	"sync"
	"time"
)

// A claim is one that this process holds: its handler runs or is about to, or its DONE is pending.
type claim struct {
	req        *Request
	validUntil time.Time // by our own monotonic clock, from before the last acquire or renew that succeeded was sent
	renewAt    time.Time
	renewal    uint64 // the renewal under way that it is part of; 0: none
	settling   bool   // its completion is under way: a renewal that finds it gone means nothing
	lost       bool
	call       *call // whose handler works on it; nil before and after

	prev, next *claim // the keeper's ring; nil outside
}

// keeper renews the claims of this process and tells when one is lost. There is one goroutine for all of them, and only while there are any.
//
// It looks at all claims whenever one is due. They are as many as messages are being handled, so that is cheap, and a claim
// that is settled before its first renewal, as most are, costs two changes of a list.
type keeper struct {
	d *Dedup

	mu      sync.Mutex
	ring    claim // sentinel
	running bool
	calls   int           // renewals under way
	last    uint64        // the number of the last one
	wake    time.Time     // when the goroutine looks next
	kick    chan struct{} // makes it look now
}

const (
	renewShare    = 3   // a claim is renewed when this part of its lease has passed
	maxRenewKeys  = 256 // keys in one renewal
	maxRenewCalls = 4   // renewals under way at once: one that hangs does not hold up the others
)

func newKeeper(d *Dedup) *keeper {
	k := &keeper{d: d, kick: make(chan struct{}, 1)}
	k.ring.prev, k.ring.next = &k.ring, &k.ring
	return k
}

// add starts to keep a claim whose acquire was sent at that time and succeeded.
func (k *keeper) add(c *claim, sent time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.lost, c.settling = false, false
	c.renewal = 0 // what an answer still under way says is about the claim that this one was before
	k.extend(c, sent)
	if c.next != nil {
		return // acquired again
	}
	c.prev, c.next = k.ring.prev, &k.ring
	c.prev.next, c.next.prev = c, c
	switch {
	case !k.running:
		k.running = true
		k.wake = c.renewAt
		go k.run()
	case c.renewAt.Before(k.wake):
		k.look()
	}
}

func (k *keeper) extend(c *claim, sent time.Time) {
	lease := k.d.cfg.Lease
	c.validUntil = sent.Add(lease)
	c.renewAt = sent.Add(lease / renewShare)
	if k.d.cfg.NoRenewal {
		c.renewAt = c.validUntil
	}
}

// remove ends the keeping of c, and says whether it was lost meanwhile.
func (k *keeper) remove(c *claim) (lost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.call = nil
	if c.next != nil {
		c.prev.next, c.next.prev = c.next, c.prev
		c.prev, c.next = nil, nil
		if k.ring.next == &k.ring && k.d.drain.started() {
			k.look() // nothing will come any more: end now, not at the next look
		}
	}
	return c.lost
}

// attach hands c to a call that is about to start. It says no if c is lost, or would be by now.
func (k *keeper) attach(c *claim, to *call) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.lost || !time.Now().Before(c.validUntil) {
		return false
	}
	c.call = to
	return true
}

// settling says that c is being completed, or, with false, that this failed. It is renewed meanwhile: the store may take its time.
func (k *keeper) settling(c *claim, yes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.call, c.settling = nil, yes
}

// nudge makes the goroutine end now, rather than at its next look, if there is nothing left to keep.
func (k *keeper) nudge() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
}

// look makes the goroutine look at the claims now. It is called with the lock held.
func (k *keeper) look() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

func (k *keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, more := k.scan()
		if !more {
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-k.kick:
		}
	}
}

// scan gives up the claims whose lease has passed, renews those that are due, and says when to look again, if at all.
func (k *keeper) scan() (wait time.Duration, more bool) {
	k.mu.Lock()
	if k.ring.next == &k.ring && k.calls == 0 {
		k.running = false
		k.mu.Unlock()
		return 0, false
	}
	now := time.Now()
	k.wake = now.Add(k.d.cfg.Lease)
	// What falls due within a moment goes along, so that claims taken at about the same time share a renewal.
	soon := now.Add(k.d.cfg.Lease / (8 * renewShare))
	var lost, due []*claim
	for c := k.ring.next; c != &k.ring; c = c.next {
		if c.lost {
			continue
		}
		if !now.Before(c.validUntil) {
			c.lost = true
			lost = append(lost, c)
			continue
		}
		k.wake = earlier(k.wake, c.validUntil)
		if c.renewal != 0 || k.d.cfg.NoRenewal {
			continue
		}
		if c.renewAt.After(soon) || len(due) == maxRenewKeys || k.calls == maxRenewCalls {
			if k.calls < maxRenewCalls { // else the end of one makes us look
				k.wake = earlier(k.wake, c.renewAt)
			}
			continue
		}
		c.renewal = k.last + 1
		due = append(due, c)
	}
	if len(due) > 0 {
		k.calls++
		k.last++
		reqs := make([]Request, len(due))
		for i, c := range due {
			reqs[i] = *c.req
		}
		go k.renew(k.last, due, reqs)
	}
	wait = time.Until(k.wake)
	cancels := k.collectLost(lost)
	k.mu.Unlock()
	k.d.reportLost(cancels, ErrLeasePassed)
	return max(wait, 0), true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (k *keeper) renew(number uint64, due []*claim, reqs []Request) {
	// The store has its own time limit; a lease's third is the latest at which the answer is of use.
	ctx, cancel := context.WithTimeout(context.Background(), k.d.cfg.Lease/renewShare)
	defer cancel()
	sent := time.Now()
	answers, err := k.d.do(ctx, OpRenew, reqs)

	retry := k.d.cfg.Lease / (4 * renewShare)
	k.mu.Lock()
	k.calls--
	var lost []*claim
	var firstErr error
	for i, c := range due {
		if c.renewal != number {
			continue // settled meanwhile, and claimed again
		}
		c.renewal = 0
		if c.next == nil || c.lost {
			continue // settled meanwhile, or given up
		}
		var a Answer
		if err == nil {
			a = answers[i]
		} else {
			a.Err = err
		}
		switch {
		case a.Err != nil:
			if firstErr == nil {
				firstErr = a.Err
			}
			c.renewAt = time.Now().Add(retry)
		case a.Outcome == Lost && c.settling:
			c.renewAt = time.Now().Add(retry)
		case a.Outcome == Lost:
			c.lost = true
			lost = append(lost, c)
		default:
			k.extend(c, sent)
		}
	}
	cancels := k.collectLost(lost)
	k.look()
	k.mu.Unlock()
	if firstErr != nil {
		k.d.event(ctx, Event{Kind: EventStoreError, Op: OpRenew, Err: firstErr})
	}
	k.d.reportLost(cancels, ErrTakenAway)
}

// A lostClaim is a claim that was lost, copied so that it can be told without the keeper's lock.
type lostClaim struct {
	req  Request
	call *call
}

func (k *keeper) collectLost(claims []*claim) []lostClaim {
	var out []lostClaim
	for _, c := range claims {
		out = append(out, lostClaim{*c.req, c.call})
	}
	return out
}

// reportLost tells the observer of claims that were lost, and cancels the calls that work on them.
func (d *Dedup) reportLost(claims []lostClaim, why error) {
	for len(claims) > 0 {
		// All claims of one call go into one cause.
		of := claims[0].call
		var keys []Key
		rest := claims[:0:0]
		for _, c := range claims {
			if c.call != of {
				rest = append(rest, c)
				continue
			}
			keys = append(keys, c.req.Key)
			d.event(context.Background(), Event{Kind: EventClaimLost, Key: c.req.Key, Owner: c.req.Owner, Err: why})
		}
		claims = rest
		if of != nil {
			of.cancelByUs(&LostClaimError{Keys: keys, Why: why})
		}
	}
}
