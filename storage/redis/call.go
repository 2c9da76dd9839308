package redis

import (
	"context"
	"time"
)

const (
	// maxUnheeding is how many calls a client that does not heed its contexts may have under way. Those above it wait.
	maxUnheeding = 1024

	// lateness is how long a client that heeds its contexts is given after a call's time limit to come back with what it has,
	// since a node of a Cluster that is silent until then must not take with it what others have answered.
	lateness = 250 * time.Millisecond
)

// A call is one operation under way.
type call struct {
	*Store
	parent context.Context // the caller's
	ctx    context.Context // ends at the limit as well: what the client is given
	limit  time.Time
}

// begin returns a call, and what ends it.
func (s *Store) begin(parent context.Context) (*call, context.CancelFunc) {
	limit := time.Now().Add(s.timeout)
	ctx, cancel := context.WithDeadline(parent, limit)
	return &call{Store: s, parent: parent, ctx: ctx, limit: limit}, cancel
}

// each runs run(0) to run(n-1) at the same time, and returns when they have all returned, the caller's context has ended, or
// the limit is past. Those that have not returned then get an error that says so, and what they work on must not be touched
// any more.
func (c *call) each(n int, run func(i int) error) []error {
	errs := make([]error, n)
	if n == 1 && c.inline() {
		errs[0] = run(0)
		return errs
	}
	type result struct {
		i   int
		err error
	}
	results := make(chan result, n)
	for i := range n {
		if err := c.enter(); err != nil {
			results <- result{i, err}
			continue
		}
		go func() {
			defer c.leave()
			results <- result{i, run(i)}
		}()
	}

	wait := time.Until(c.limit)
	if c.heeds {
		wait += lateness
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()

	for i := range errs {
		errs[i] = errUnanswered
	}
	for range n {
		select {
		case r := <-results:
			errs[r.i] = r.err
			continue
		case <-c.parent.Done():
		case <-limit.C:
		}
		for { // what came at the same moment
			select {
			case r := <-results:
				errs[r.i] = r.err
				continue
			default:
			}
			return errs
		}
	}
	return errs
}

// inline says that nothing ends the call before the limit, at which the client comes back by itself, so that nobody need watch it.
func (c *call) inline() bool { return c.heeds && c.parent.Done() == nil }

// enter takes a slot, where they are counted: goroutines that wait for a client which does not heed its contexts may outlive
// their calls, until the client's own time-outs end them.
func (c *call) enter() error {
	if c.slots == nil {
		return nil
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

func (c *call) leave() {
	if c.slots != nil {
		<-c.slots
	}
}
