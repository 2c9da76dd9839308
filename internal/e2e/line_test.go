package e2e

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// A line carries TCP connections to a server, until it is told not to.
type line struct {
	listener net.Listener
	server   string
	pumps    sync.WaitGroup

	mu     sync.Mutex
	broken bool
	conns  map[net.Conn]bool
	frozen chan struct{} // closed while bytes flow
	late   chan struct{} // closed while the server's do
	muted  bool          // what the server says is thrown away

	rewrite rewrite
}

// A rewrite says what becomes of RocketMQ's frames, each less its length: the server's and those to it. nil is a frame that is lost.
type rewrite func(frame []byte, server bool) []byte

// newLine makes a line. Without a rewrite what it carries need not be frames.
func newLine(s *story, server string, rewrite rewrite) *line {
	s.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	l := &line{
		listener: ln, server: server, rewrite: rewrite,
		conns: make(map[net.Conn]bool), frozen: make(chan struct{}), late: make(chan struct{}),
	}
	close(l.frozen)
	close(l.late)
	l.pumps.Go(l.accept)
	s.Cleanup(func() {
		_ = ln.Close()
		l.cut()
		l.mend() // wakes those that wait
		l.cut()
		l.pumps.Wait()
	})
	return l
}

func (l *line) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.server)
		if err != nil || !l.keep(near, far) {
			_ = near.Close()
			if far != nil {
				_ = far.Close()
			}
			continue
		}
		l.pumps.Go(func() { l.pump(near, far, true) })
		l.pumps.Go(func() { l.pump(far, near, false) })
	}
}

// keep takes a connection into care. It says no while the line is cut.
func (l *line) keep(ends ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range ends {
		if !l.broken {
			l.conns[c] = true
		}
	}
	return !l.broken
}

func (l *line) pump(to, from net.Conn, server bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		data, err := l.read(from, buffer, server)
		if err != nil {
			return
		}
		l.mu.Lock()
		flows, late, muted := l.frozen, l.late, l.muted
		l.mu.Unlock()
		<-flows
		if server {
			if muted {
				continue
			}
			<-late
		}
		if _, err := to.Write(data); err != nil {
			return
		}
	}
}

func (l *line) read(from net.Conn, buffer []byte, server bool) ([]byte, error) {
	if l.rewrite == nil {
		n, err := from.Read(buffer)
		return buffer[:n], err
	}
	for {
		if _, err := io.ReadFull(from, buffer[:4]); err != nil {
			return nil, err
		}
		frame := make([]byte, binary.BigEndian.Uint32(buffer))
		if _, err := io.ReadFull(from, frame); err != nil {
			return nil, err
		}
		if frame = l.rewrite(frame, server); frame != nil {
			return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...), nil
		}
	}
}

// cut breaks all connections, and new ones at once, until mend is called.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// freeze leaves connections open but carries nothing until mend is called, and then what was sent meanwhile.
func (l *line) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

// mute throws away what the server says until mend is called.
func (l *line) mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muted = true
}

// delay holds up what the server says until mend is called.
func (l *line) delay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = make(chan struct{})
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken, l.muted = false, false
	for _, gate := range []chan struct{}{l.frozen, l.late} {
		select {
		case <-gate:
		default:
			close(gate)
		}
	}
}
