package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A proxy carries TCP connections to a server, and every byte arrives half the round trip later than it was sent, in either direction. It
// limits nothing else: while bytes wait, any number of further ones may follow them.
type proxy struct {
	listener net.Listener
	server   string
	delay    time.Duration // of each direction
	pumps    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

// newProxy starts one, that ends with the stage.
func newProxy(ctx context.Context, s *stage, server string, roundTrip time.Duration) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, server: server, delay: roundTrip / 2, conns: make(map[net.Conn]bool)}
	p.pumps.Go(p.accept)
	s.close(p)
	return p, nil
}

// address is where clients connect to.
func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.pump(server, client)
		p.pump(client, server)
	}
}

// pump carries one direction in the background.
func (p *proxy) pump(to, from net.Conn) {
	t, err := newTimer()
	if err != nil {
		_, _ = to.Close(), from.Close()
		return
	}
	p.pumps.Go(func() {
		carry(to, from, p.delay, t)
		_ = t.Close()
	})
}

// keep notes connections that Close has to close, or closes them if that has been called.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.closed
}

// Close cuts all connections, and returns when nothing runs any more.
func (p *proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.pumps.Wait()
	return err
}

// A timer waits for as long as it is told, and not much longer.
type timer interface {
	wait(d time.Duration) error
	io.Closer
}

// carry carries what comes from one connection to another until either ends, and closes both then; what was sent before the end still arrives.
func carry(to io.WriteCloser, from io.ReadCloser, delay time.Duration, t timer) {
	l := newLane(delay)
	var writing sync.WaitGroup
	writing.Go(func() {
		_ = l.drain(to, t)
		_ = to.Close()
		_ = from.Close() // ends the reading, if it was the writing that failed
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			l.send(buffer[:n])
		}
		if err != nil {
			break
		}
	}
	l.end()
	writing.Wait()
}

// A lane is one direction: a queue without a bound of what has been sent and has not arrived.
type lane struct {
	delay time.Duration

	mu    sync.Mutex
	queue []parcel
	ended bool
	more  chan struct{} // has room for one signal
}

type parcel struct {
	data []byte
	due  time.Time
}

func newLane(delay time.Duration) *lane {
	return &lane{delay: delay, more: make(chan struct{}, 1)}
}

// send takes a copy of data, and never blocks.
func (l *lane) send(data []byte) {
	p := parcel{append([]byte(nil), data...), time.Now().Add(l.delay)}
	l.mu.Lock()
	l.queue = append(l.queue, p)
	l.mu.Unlock()
	l.signal()
}

// end says that nothing more will be sent.
func (l *lane) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.signal()
}

func (l *lane) signal() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// drain writes what is sent, in order and each when it is due, until the lane has ended.
func (l *lane) drain(to io.Writer, t timer) error {
	for {
		p, err := l.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if left := time.Until(p.due); left > 0 {
			if err := t.wait(left); err != nil {
				return err
			}
		}
		if _, err := to.Write(p.data); err != nil {
			return err
		}
	}
}

// next takes the first parcel, or waits for one. io.EOF says that there will be none.
func (l *lane) next() (parcel, error) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			p := l.queue[0]
			l.queue[0] = parcel{}
			l.queue = l.queue[1:]
			l.mu.Unlock()
			return p, nil
		}
		ended := l.ended
		l.mu.Unlock()
		if ended {
			return parcel{}, io.EOF
		}
		<-l.more
	}
}
