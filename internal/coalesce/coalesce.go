package coalesce

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

const (
	// MaxKeys is how many keys go out together at most.
	MaxKeys = 64
	// maxShare is how many keys a call may have to go out with others. A larger one has made its own company.
	maxShare = MaxKeys / 2
	// patience is how long a call waits before it stops taking those under way for quick ones.
	patience = 20 * time.Millisecond
)

// A Config is what a [Coalescer] is made of. All is required but DoAll, Size, Ping and Gather.
type Config struct {
	// Name begins the errors that are the coalescer's own.
	Name string

	// Ops are the operations whose calls go out together. All others go alone.
	Ops []rmqdedup.Op

	// Do makes one call of the store, as the method for op would.
	Do func(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error)

	// DoAll makes several calls in one round trip, of one operation each, and answers in each of them. No key is in two of them. nil: each
	// operation's calls go by themselves.
	DoAll func(ctx context.Context, calls []Part)

	// Limit is how long a caller waits at most. Do ends by itself after about as long.
	Limit time.Duration

	// Size says how many of so many keys should go out together, where some numbers are better than others: the others then
	// are in the next call. It is at least 1. nil: all.
	Size func(keys int) int

	// Ping makes the cheapest round trip to the server that there is. Without it the window stays as it is at first, Window(0).
	Ping func(ctx context.Context) error

	// Gather has a call that could be made at once, but leaves no room for others, let the goroutines go first that are ready to run, and take
	// along the calls that these make.
	Gather bool

	// Window returns how many calls may be under way over a round trip of that length; at least 1.
	Window func(roundTrip time.Duration) int
}

// A Part is one of several calls that are made together.
type Part struct {
	Op       rmqdedup.Op
	Requests []rmqdedup.Request

	Answers []rmqdedup.Answer
	Err     error
}

// A Coalescer makes calls of a store. It is safe for concurrent use.
type Coalescer struct {
	config  Config
	probes  probes
	waiters sync.Pool // of *waiter; not everybody's, since a coalescer may live in a testing/synctest bubble

	mu        sync.Mutex
	lanes     [rmqdedup.OpForget + 1]lane // by operation
	waiting   int                         // calls in lanes
	arrived   uint64                      // number of the last that came to wait
	running   int                         // calls under way, and the one that gathers
	window    int                         // how many may be
	extra     int                         // and how many more, since some of them take long
	gathering bool                        // a call looks whether others come with it
	apart     map[digest]time.Time        // keys that go alone, until when

	background int       // goroutines
	idle       sync.Cond // there are none
}

// New returns a coalescer. It starts nothing; what it starts for calls ends with them.
func New(config Config) *Coalescer {
	c := &Coalescer{config: config, window: max(1, config.Window(0)), probes: probes{began: time.Now()}}
	c.waiters.New = newWaiter
	c.idle.L = &c.mu
	return c
}

// Do is the store's operation op. What it returns is the store's answer, and the errors are the store's, but for one that wraps that of ctx,
// and one that wraps [context.DeadlineExceeded] when the limit has passed.
func (c *Coalescer) Do(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	if !slices.Contains(c.config.Ops, op) || len(reqs) == 0 || len(reqs) > maxShare {
		return c.config.Do(ctx, op, reqs)
	}
	c.mu.Lock()
	if len(c.apart) > 0 && c.isApart(reqs) {
		c.mu.Unlock()
		return c.config.Do(ctx, op, reqs)
	}
	c.arrived++
	arrived := c.arrived
	if c.waiting == 0 && c.room() && !c.gathering {
		if c.alone() {
			c.mu.Unlock()
			defer c.finished(time.Now())
			return c.config.Do(ctx, op, reqs)
		}
	} else if err := ctx.Err(); err != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("%s: %v: %w", c.config.Name, op, err)
	}
	w := c.waiters.Get().(*waiter)
	w.op, w.reqs, w.arrived = op, reqs, arrived
	c.enqueue(w)
	c.mu.Unlock()
	return c.wait(ctx, w)
}

// alone counts a call as under way, and returns true, if it is to be made by itself. If calls are to be gathered, and after this one there is no room, the
// goroutines that are ready to run go first, so that handlers which a timer or the answers of one round trip have woken make their
// calls together: it is false if one has. The mutex is held, but not meanwhile.
func (c *Coalescer) alone() bool {
	c.running++
	if !c.config.Gather || c.room() {
		return true
	}
	c.gathering = true
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
	c.gathering = false
	if c.waiting == 0 {
		return true
	}
	c.running--
	return false
}

// A waiter is a call that waits for its answers.
type waiter struct {
	op      rmqdedup.Op
	reqs    []rmqdedup.Request
	arrived uint64
	queued  bool // in its lane; guarded by the coalescer's mutex

	answers []rmqdedup.Answer
	err     error
	done    chan struct{} // has an element when answers and err are there
	timer   *time.Timer
}

func newWaiter() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &waiter{done: make(chan struct{}, 1), timer: t}
}

// wait returns the answers of w when they are there, or an error if ctx ends or the limit passes before.
func (c *Coalescer) wait(ctx context.Context, w *waiter) ([]rmqdedup.Answer, error) {
	patient := min(patience, c.config.Limit)
	w.timer.Reset(patient)
	for {
		select {
		case <-w.done:
			w.timer.Stop()
			answers, err := w.answers, w.err
			c.release(w)
			return answers, err
		case <-ctx.Done():
			w.timer.Stop()
			c.leave(w)
			return nil, fmt.Errorf("%s: %v: %w while the server was waited for", c.config.Name, w.op, ctx.Err())
		case <-w.timer.C:
		}
		if patient == c.config.Limit {
			c.leave(w)
			return nil, fmt.Errorf("%s: %v: no answer from the server within the time limit of %v: %w", c.config.Name, w.op, c.config.Limit, context.DeadlineExceeded)
		}
		c.hurry(w)
		w.timer.Reset(c.config.Limit - patient)
		patient = c.config.Limit
	}
}

// release gives w back to be used again. Nobody else knows it any more.
func (c *Coalescer) release(w *waiter) {
	w.reqs, w.answers, w.err = nil, nil, nil
	c.waiters.Put(w)
}

// leave has w, whose caller goes, not be sent, unless it has been.
func (c *Coalescer) leave(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.queued {
		c.lanes[w.op].remove(w)
		c.waiting--
	}
}

// Apart has a key go alone for a time, since whoever shares a call with it waits for as long as it does.
func (c *Coalescer) Apart(key rmqdedup.Key, how time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apart == nil {
		c.apart = make(map[digest]time.Time)
	}
	for d, until := range c.apart {
		if now.After(until) {
			delete(c.apart, d)
		}
	}
	c.apart[key.Digest()] = now.Add(how)
}

func (c *Coalescer) isApart(reqs []rmqdedup.Request) bool {
	for i := range reqs {
		d := reqs[i].Key.Digest()
		until, ok := c.apart[d]
		if ok && time.Now().Before(until) {
			return true
		}
		delete(c.apart, d)
	}
	return false
}

// Close returns when nothing that the coalescer has started is left. Calls that are made meanwhile, or later, are the store's to refuse.
func (c *Coalescer) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.background > 0 {
		c.idle.Wait()
	}
}
