package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// An overRoundTrip compares a store over a slow line with the same whose handlers' calls are not coalesced.
type overRoundTrip struct {
	store    string
	handlers int
}

// roundTrip is the line's.
const roundTrip = time.Millisecond

// uncoalesced is the option of a store's URL that has every call go out on its own.
const uncoalesced = "coalesce=false"

func (c overRoundTrip) cell() cell {
	return cell{
		fmt.Sprintf("rtt=%v/store=%s/handlers=%d", roundTrip, c.store, c.handlers), c.open,
		[]row{faster("messages : uncoalesced", messagesPerSecond, neverBelow(1))},
	}
}

func (c overRoundTrip) open(ctx context.Context, s *stage) (pair, error) {
	t, err := newStateTable(ctx, s, c.store)
	if err != nil {
		return pair{}, err
	}
	p, err := newProxy(ctx, s, t.server.Host, roundTrip)
	if err != nil {
		return pair{}, err
	}
	measured, err := measureRoundTrip(ctx, roundTrip)
	if err != nil {
		return pair{}, err
	}
	s.note("a byte's round trip through the proxy takes %v (median of %d)", measured.Round(time.Microsecond), echoes)
	return twoWays(ctx, s, t.through(p.address()), c.handlers)
}

// twoWays are two processes on one table: uncoalesced, and as by default.
func twoWays(ctx context.Context, s *stage, t *stateTable, handlers int) (pair, error) {
	plain, err := t.open(ctx, s, handlers, uncoalesced)
	if err != nil {
		return pair{}, err
	}
	usual, err := t.open(ctx, s, handlers)
	if err != nil {
		return pair{}, err
	}
	reference := &process{store: plain, space: "a-", keys: 1}
	product := &process{store: usual, space: "b-", keys: 1}
	return pair{reference.measurement(handlers), product.measurement(handlers)}, nil
}

// A tail compares the slowest claims and completions of one handler with those of the same store without coalescing.
type tail struct{ store string }

func (c tail) cell() cell {
	return cell{
		fmt.Sprintf("p99/store=%s/handlers=1", c.store), c.open,
		[]row{
			sooner("p99 of uncoalesced : p99", p99Microseconds, neverBelow(1)),
			faster("messages : uncoalesced", messagesPerSecond, reported()),
		},
	}
}

func (c tail) open(ctx context.Context, s *stage) (pair, error) {
	t, err := newStateTable(ctx, s, c.store)
	if err != nil {
		return pair{}, err
	}
	measured := func(space string, options ...string) (measurement, error) {
		store, err := t.open(ctx, s, 1, options...)
		if err != nil {
			return nil, err
		}
		p := &process{store: store, space: space, keys: 1}
		l := p.load(1)
		l.latencies = make([]float64, 0, 1<<16)
		return func(ctx context.Context, d time.Duration) (figures, error) {
			perSecond, err := p.run(ctx, l, tailRounds*d)
			return figures{messagesPerSecond: perSecond, p99Microseconds: percentile(l.latencies, 0.99)}, err
		}, nil
	}
	reference, err := measured("a-", uncoalesced)
	if err != nil {
		return pair{}, err
	}
	product, err := measured("b-")
	return pair{reference, product}, err
}

// tailRounds is how much longer the rounds are, since one message of a hundred is to be a few dozen of them.
const tailRounds = 3

const echoes = 101

// measureRoundTrip sends single bytes through a proxy to a server that answers at once, and returns the median of their round trips.
func measureRoundTrip(ctx context.Context, roundTrip time.Duration) (_ time.Duration, err error) {
	s := &stage{}
	defer func() { err = errors.Join(err, s.undo()) }()
	server, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	s.close(server)
	go func() {
		if conn, err := server.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	p, err := newProxy(ctx, s, server.Addr().String(), roundTrip)
	if err != nil {
		return 0, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address())
	if err != nil {
		return 0, err
	}
	s.close(conn)
	times := make([]float64, echoes)
	for i := range times {
		begin := time.Now()
		if _, err := conn.Write([]byte{1}); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return 0, err
		}
		times[i] = float64(time.Since(begin))
	}
	return time.Duration(median(times)), nil
}
