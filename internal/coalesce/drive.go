package coalesce

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// room says whether one more call may be under way. The mutex is held.
func (c *Coalescer) room() bool { return c.running < c.window+c.extra }

// ended notes the end of a call that began then. The mutex is held.
func (c *Coalescer) ended(began time.Time) {
	c.running--
	switch {
	case c.running == 0:
		c.extra = 0
	case c.extra > 0 && time.Since(began) >= patience:
		c.extra--
	}
}

// finished ends a call that was made by its own goroutine. Those that wait are served by another one, so that it can go on.
func (c *Coalescer) finished(began time.Time) {
	c.mu.Lock()
	c.ended(began)
	if c.waiting > 0 && c.room() {
		c.drive()
	}
	c.mu.Unlock()
	c.probe()
}

// spawn runs f in a goroutine that Close waits for. The mutex is held.
func (c *Coalescer) spawn(f func()) {
	c.background++
	go func() {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.background--; c.background == 0 {
				c.idle.Broadcast()
			}
		}()
		f()
	}()
}

// drive starts a goroutine that serves those that wait until none does. The mutex is held.
func (c *Coalescer) drive() {
	c.running++
	c.spawn(func() {
		b := &batch{seen: make(map[digest]struct{}, MaxKeys)}
		began := time.Now()
		for c.next(b, began) {
			began = time.Now()
			c.serve(b)
			c.probe()
			// Those that have their answers now, and have nothing to do but to make the next call, come before the next
			// batch is put together, rather than the first of them alone after it.
			runtime.Gosched()
		}
	})
}

// next fills a driver's batch, or ends the driver. Its last call, if any, began then.
func (c *Coalescer) next(b *batch, began time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended(began)
	if !c.room() || !c.fill(b) {
		return false
	}
	c.running++
	return true
}

// serve makes one call for all members of a batch, or has all of them made together.
func (c *Coalescer) serve(b *batch) {
	var parts [len(b.parts)]Part
	all := parts[:0]
	for op := range b.parts {
		if p := &b.parts[op]; len(p.members) > 0 {
			all = append(all, Part{Op: rmqdedup.Op(op), Requests: p.reqs})
		}
	}
	ctx := context.Background()
	if len(all) > 1 {
		c.config.DoAll(ctx, all)
	} else {
		all[0].Answers, all[0].Err = c.config.Do(ctx, all[0].Op, all[0].Requests)
	}
	for _, p := range all {
		from, members := 0, b.parts[p.Op].members
		for i, w := range members {
			to := from + len(w.reqs)
			if p.Err == nil {
				w.answers = slices.Clip(p.Answers[from:to])
			}
			w.err = p.Err
			from = to
			members[i] = nil
			w.done <- struct{}{} // its caller may be gone, but there is room for one
		}
	}
}

// hurry has w, which has waited for long, not wait for those under way any more.
func (c *Coalescer) hurry(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.queued {
		c.extra++
		if c.room() {
			c.drive()
		}
	}
}
