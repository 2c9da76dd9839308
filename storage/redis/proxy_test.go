package redis_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A proxy stands before a server and can lose what that answers.
type proxy struct {
	addr string
	lose atomic.Bool // the next answer to an operation of the store, and the connection with it
}

func startProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			var last atomic.Bool // the connection's next answer is to be lost
			end := func() { _, _ = client.Close(), upstream.Close() }
			running.Go(func() { defer end(); p.questions(upstream, client, &last) })
			running.Go(func() { defer end(); p.answers(client, upstream, &last) })
		}
	})
	return p
}

func (p *proxy) questions(upstream io.Writer, client io.Reader, last *atomic.Bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		operation := bytes.Contains(buffer[:n], []byte("\r\nset\r\n")) || bytes.Contains(buffer[:n], []byte("\r\nevalsha\r\n"))
		if operation && p.lose.CompareAndSwap(true, false) {
			last.Store(true)
		}
		if _, err := upstream.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) answers(client io.Writer, upstream io.Reader, last *atomic.Bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := upstream.Read(buffer)
		if err != nil || last.Load() {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// go-redis sends a command again when the answer is lost. What that does to an answer is known.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	p := startProxy(t, srv.addr)
	c := goredis.NewClient(&goredis.Options{Addr: p.addr})
	t.Cleanup(func() { _ = c.Close() })
	s := newStore(t, c)
	for _, op := range allOps { // the scripts are known from now on, those for several keys too, or it would be that answer which is lost
		do(t, s, op, request("other"))
		do(t, s, op, request("other"), request("another"))
	}
	for _, n := range []int{1, 10} {
		claim := func() []rmqdedup.Request {
			reqs := strangers(requests(n)...)
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)
			return reqs
		}
		lost := func(outcome rmqdedup.Outcome, op rmqdedup.Op, reqs []rmqdedup.Request) {
			t.Helper()
			p.lose.Store(true)
			want(t, s, outcome, op, reqs...)
			if p.lose.Load() {
				t.Errorf("%v: no answer was lost", op)
			}
		}
		forget := func(reqs []rmqdedup.Request) { want(t, s, rmqdedup.Applied, rmqdedup.OpForget, reqs...) }

		reqs := requests(n)
		lost(rmqdedup.Claimed, rmqdedup.OpAcquire, reqs)
		lost(rmqdedup.Applied, rmqdedup.OpRenew, reqs)
		lost(rmqdedup.Applied, rmqdedup.OpAbandon, reqs)
		reqs = strangers(reqs...)
		lost(rmqdedup.TakenOver, rmqdedup.OpAcquire, reqs)
		lost(rmqdedup.Done, rmqdedup.OpComplete, reqs)
		lost(rmqdedup.Done, rmqdedup.OpAcquire, strangers(reqs...))
		forget(reqs)
		lost(rmqdedup.Lost, rmqdedup.OpRelease, claim())
		want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, reqs...)
	}
}
