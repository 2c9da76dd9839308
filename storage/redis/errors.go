package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// errUnanswered stands for the reason for which a call stopped waiting.
var errUnanswered = errors.New("no answer")

// answered says whether err is what a server answered, and not what happened on the way to it.
func answered(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply)
}

// explain returns err with what it means and what to do. The text of the server is kept, and so is what errors.Is finds.
func (c *call) explain(err error) error {
	if answered(err) {
		return explainReply(err)
	}
	if c.closed.Load() {
		return rmqdedup.ErrClosed
	}
	if errors.Is(err, goredis.ErrClosed) {
		return fmt.Errorf("%w: its Redis client has been closed (%w)", rmqdedup.ErrClosed, err)
	}
	if ended := c.ended(err); ended != nil {
		return fmt.Errorf("%w while Redis was waited for", ended)
	}
	if errors.Is(err, errUnanswered) || c.ctx.Err() != nil || passed(c.limit, err) {
		return fmt.Errorf("no answer from Redis within the time limit of %v: %w", c.timeout, context.DeadlineExceeded)
	}
	if strings.Contains(err.Error(), "\n") {
		return oneLineError{err}
	}
	return err
}

// ended returns the error of the caller's context if it is why the client came back with err, and nil otherwise.
func (c *call) ended(err error) error {
	if ended := c.parent.Err(); ended != nil {
		return ended
	}
	if deadline, ok := c.parent.Deadline(); ok && passed(deadline, err) {
		return context.DeadlineExceeded
	}
	return nil
}

// passed says whether err comes from that deadline. A connection notices it a little before its context does.
func passed(deadline time.Time, err error) bool {
	timedOut := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
	return timedOut && time.Until(deadline) < 10*time.Millisecond
}

// A oneLineError is one that go-redis has joined from several, in one line.
type oneLineError struct{ error }

func (e oneLineError) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", "; ") }
func (e oneLineError) Unwrap() error { return e.error }

func explainReply(err error) error {
	// Redis 6.2 puts the line of a script before what a command in it was refused for, and a minus between.
	has := func(code string) bool {
		return goredis.HasErrorPrefix(err, code) || strings.Contains(err.Error(), "-"+code+" ")
	}
	switch {
	case has("OOM"):
		return fmt.Errorf("%w: Redis is at its maxmemory, so that nothing new can be claimed or DONE until there is room (%w)", rmqdedup.ErrFull, err)
	case has("RMQDEDUP"):
		return fmt.Errorf("%w (%w)", errFormat, err)
	case has("WRONGTYPE"):
		return fmt.Errorf("the key holds something else than a record, so the prefix is somebody else's too: choose another (%w)", err)
	case has("MOVED"), has("ASK"):
		return fmt.Errorf("the server is a node of a Redis Cluster: use redis+cluster://, or a goredis.ClusterClient (%w)", err)
	case has("CROSSSLOT"):
		return fmt.Errorf("the server, or a proxy before it, did not expect a pipeline over several slots: use redis+cluster://, or a goredis.ClusterClient (%w)", err)
	case has("READONLY"):
		return fmt.Errorf("the server is a replica, which cannot be written: connect to the master, or through Sentinel (%w)", err)
	case has("NOPERM"):
		return fmt.Errorf("the user may not do this: it needs EVALSHA, EVAL, GET, SET, SETRANGE, PEXPIRE, PTTL, DEL, TIME and SCAN on the prefix's keys (%w)", err)
	case has("This instance has cluster support disabled"):
		return fmt.Errorf("the server is no node of a Redis Cluster: use redis://, or a goredis.Client (%w)", err)
	case has("NOAUTH"), has("WRONGPASS"):
		return fmt.Errorf("user and password were refused: set them in the URL or in the client's options (%w)", err)
	}
	return err
}
