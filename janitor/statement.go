package janitor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

const (
	// retries is how often a statement is tried again that failed.
	retries = 3
	// firstBackoff is the longest pause before the first of them; each further one doubles it.
	firstBackoff = 500 * time.Millisecond
)

// errOverTime ends a sweep that has used up its time. It is told as [Report.Unfinished].
var errOverTime = errors.New("janitor: the sweep's time is over")

// statement calls f, again if it fails, a bounded number of times. f asks for [sweep.size] in each attempt, which is
// smaller after one that timed out. No attempt begins after the sweep's time.
func (s *sweep) statement(ctx context.Context, what string, f func(context.Context) error) (err error) {
	for attempt := 0; ; attempt++ {
		if s.overTime() {
			if err == nil {
				err = errOverTime
			}
			return err
		}
		var timedOut bool
		if timedOut, err = s.once(ctx, f); err == nil {
			return nil
		}
		err = fmt.Errorf("janitor: %s: %w", what, err)
		if ctx.Err() != nil {
			return err
		}
		if timedOut {
			s.report.Timeouts++
			s.pace.timedOut()
		}
		if attempt == retries || errors.Is(err, rmqdedup.ErrClosed) || errors.Is(err, rmqdedup.ErrBadRequest) {
			return err
		}
		if sleep(ctx, backoff(attempt)) != nil {
			return err
		}
		s.report.Retries++
	}
}

// once calls f within a statement's time limit.
func (s *sweep) once(ctx context.Context, f func(context.Context) error) (timedOut bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout)
	defer cancel()
	err = f(ctx)
	// A store has a limit of its own too, which may be the shorter one.
	return err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)), err
}

func (s *sweep) overTime() bool { return !time.Now().Before(s.until) }

// backoff is the pause after that many failed attempts and one. It is random, so that two janitors that met in a deadlock do
// not meet again.
func backoff(attempt int) time.Duration {
	b := firstBackoff << attempt
	return b/2 + rand.N(b/2+1)
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
