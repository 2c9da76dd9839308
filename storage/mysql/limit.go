package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A call is one operation under way.
type call struct {
	*Store
	op     *operation
	parent context.Context // the caller's
	limit  time.Time       // when the store's time limit is reached

	quick   bool            // the next statement may go without a context that ends
	watched context.Context // what all others are given; nil until there is one
	unwatch context.CancelFunc
	slot    bool
}

// newCall returns a call, to be ended. The driver has a goroutine of the connection watch a context that can end, which it wakes twice a statement; at
// one handler that is a tenth of the time that a message costs. The context of a message never ends, and the connections
// of a pool that is the store's own end a statement by themselves after the time limit, so that the first statement of a call, mostly the only one, need
// not be watched.
func (s *Store) newCall(parent context.Context, op *operation) (*call, error) {
	if s.closed.Load() {
		return nil, rmqdedup.ErrClosed
	}
	if err := parent.Err(); err != nil {
		return nil, err
	}
	c := &call{Store: s, op: op, parent: parent, limit: time.Now().Add(s.timeout)}
	if parent.Done() == nil {
		select {
		case s.server.quick <- struct{}{}: // there is a connection, or will be one before long
			c.quick, c.slot = true, true
		default: // that of a shared pool is nil
		}
	}
	return c, nil
}

func (c *call) end() {
	if c.slot {
		<-c.server.quick
	}
	if c.unwatch != nil {
		c.unwatch()
	}
}

// context returns that of the call's next statement.
func (c *call) context() context.Context {
	if c.quick {
		c.quick = false
		return unwatched{c.parent, c.limit}
	}
	if c.watched == nil {
		c.watched, c.unwatch = context.WithDeadline(c.parent, c.limit)
	}
	return c.watched
}

// room asks how long the keys of a statement may get.
func (c *call) room() (int, error) {
	r := c.sql.Load()
	if r == nil {
		c.quick = false
		var err error
		if r, err = c.renderer(c.context()); err != nil {
			return 0, err
		}
	}
	return r.room, nil
}

// late says that the time limit is over.
func (c *call) late() bool { return !time.Now().Before(c.limit) }

// explain is [Store.explain] of an error that the call has met.
func (c *call) explain(err error) error {
	if broken(err) && c.late() { // as the driver says that it has read no answer in time
		err = fmt.Errorf("%w (%w)", context.DeadlineExceeded, err)
	}
	return c.Store.explain(c.parent, err)
}

// unwatched is a context that never ends, but has ended once its limit is past: who asks is told so, and nobody is woken.
type unwatched struct {
	context.Context
	limit time.Time
}

func (u unwatched) Deadline() (time.Time, bool) { return u.limit, true }

func (u unwatched) Err() error {
	if !time.Now().Before(u.limit) {
		return context.DeadlineExceeded
	}
	return nil
}
