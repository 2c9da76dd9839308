package rmqtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// closeTime bounds how long Close and Restart wait for what is running.
const closeTime = 10 * time.Second

// A Broker is a name server and a broker in one, listening on a loopback port of its own. Its methods may be called
// from any number of goroutines.
type Broker struct {
	cfg  Config
	host netip.AddrPort
	name string

	// Everything below is guarded by mu, which is never held while something is written to a client.
	mu     sync.Mutex
	closed bool
	server *server
	change chan struct{} // closed and replaced whenever something below changes
	names  int           // instance names given out

	topics    map[string][]*queue
	log       map[int64]*Message // all records by commit log offset
	logEnd    int64
	schedule  []delayed     // in the order of their times
	levelEnds map[int]int64 // the next queue offset in each delay level's own queue
	timer     *time.Timer   // for the schedule

	members map[string]map[string]*member // by group and client ID
	known   map[identity]bool             // who was a member at any time
	views   map[string]*view              // by group, see rebalance.go
	offsets map[position]int64
	saved   map[position]int64 // the offsets that the last start found
	deaf    map[string]int     // groups whose commits are lost at present
	locks   map[position]queueLock
	held    map[*pulling]chan struct{} // closed to end the wait, and nil then
	doubles int                        // how many sends are still to be stored twice

	malformed  int // frames
	hooks      []*hook
	requests   []*Request
	counts     map[Code]int
	deliveries map[string][]Delivery // by group
}

// Start starts a broker. The error is one of cfg, with every problem in it, or of the network.
func Start(cfg Config) (*Broker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Broker{
		cfg: cfg.withDefaults(), name: "rmqtest-" + rand.Text()[:8], change: make(chan struct{}),
		topics: make(map[string][]*queue), log: make(map[int64]*Message), levelEnds: make(map[int]int64),
		members: make(map[string]map[string]*member), known: make(map[identity]bool), views: make(map[string]*view),
		offsets: make(map[position]int64), saved: make(map[position]int64), deaf: make(map[string]int),
		locks: make(map[position]queueLock), held: make(map[*pulling]chan struct{}),
		counts: make(map[Code]int), deliveries: make(map[string][]Delivery),
	}
	b.timer = time.AfterFunc(time.Hour, b.deliverDue)
	if err := b.listen("127.0.0.1:0"); err != nil {
		b.timer.Stop()
		return nil, err
	}
	return b, nil
}

// Addr is the address to give to clients as their name server: 127.0.0.1 and a port.
func (b *Broker) Addr() string { return b.host.String() }

// InstanceName returns a name that no other call, in this or another process, returns. Every consumer and producer
// needs one of its own, by consumer.WithInstance or producer.WithInstanceName: the client shares connections, timers
// and a member's identity among all that have the same name, and refuses a second name server or group there.
func (b *Broker) InstanceName() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names++
	return fmt.Sprintf("%s-%d", b.name, b.names)
}

// CreateTopic makes a topic with a number of queues, or gives an existing one more of them, up to 1024. It is an error
// if the name is none or if the topic has more queues already.
//
// A topic must exist before a consumer of it starts; a producer's first send makes one with 4 queues. A consumer learns
// of further queues within 50 s.
func (b *Broker) CreateTopic(name string, queues int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.makeTopic(name, queues)
}

func (b *Broker) makeTopic(name string, queues int) error {
	if err := checkTopic(name); err != nil {
		return fmt.Errorf("rmqtest: %w", err)
	}
	if queues < 1 || queues > maxQueues {
		return fmt.Errorf("rmqtest: topic %s: %d queues, must be between 1 and %d", name, queues, maxQueues)
	}
	if has := len(b.topics[name]); has > queues {
		return fmt.Errorf("rmqtest: topic %s has %d queues, and cannot go back to %d", name, has, queues)
	}
	b.addTopic(name, queues)
	return nil
}

// Close stops the broker and returns when all that it started has ended; a second call does nothing. The only error is
// that something still runs after 10 s, which is a hook that blocks. Clients should be shut down first: those that are
// not go on trying to reach it.
func (b *Broker) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.timer.Stop()
	s := b.server
	b.changed()
	b.mu.Unlock()
	return s.stop(true)
}

// changed wakes those who wait for something to happen. b.mu is held.
func (b *Broker) changed() {
	close(b.change)
	b.change = make(chan struct{})
}

// A server is what a restart replaces: a listener and its connections.
type server struct {
	b    *Broker
	ln   net.Listener
	ctx  context.Context
	end  context.CancelFunc
	runs sync.WaitGroup

	conns map[*conn]bool // guarded by b.mu; nil once the server stops
}

func (b *Broker) listen(addr string) error {
	ln, err := net.Listen("tcp4", addr)
	if err != nil {
		return fmt.Errorf("rmqtest: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = ln.Close()
		return ErrClosed
	}
	if !b.host.IsValid() {
		b.host = ln.Addr().(*net.TCPAddr).AddrPort()
	}
	s := &server{b: b, ln: ln, conns: make(map[*conn]bool)}
	s.ctx, s.end = context.WithCancel(context.Background())
	b.server = s
	s.runs.Go(s.accept)
	return nil
}

func (s *server) accept() {
	for s.ctx.Err() == nil {
		nc, err := s.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, perhaps
			Pause{For: 10 * time.Millisecond}.wait(s.ctx)
			continue
		}
		c := s.b.newConn(s.ctx, nc)
		s.b.mu.Lock()
		open := s.conns != nil
		if open {
			s.conns[c] = true
		}
		s.b.mu.Unlock()
		if !open {
			c.end()
			_ = nc.Close()
			continue
		}
		s.runs.Go(func() {
			c.serve()
			s.b.mu.Lock()
			defer s.b.mu.Unlock()
			delete(s.conns, c)
		})
	}
}

// stop ends the server: gently, answering held pulls first, or as a crash would.
func (s *server) stop(gently bool) error {
	_ = s.ln.Close()
	s.b.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.b.mu.Unlock()
	for c := range conns {
		if gently {
			c.hangUp()
		} else {
			_ = c.nc.Close()
		}
	}
	ended := make(chan struct{})
	go func() {
		s.runs.Wait()
		close(ended)
	}()
	over := time.NewTimer(closeTime)
	defer over.Stop()
	defer s.end()
	select {
	case <-ended:
		return nil
	case <-over.C:
		return fmt.Errorf("rmqtest: something still runs after %v; does a hook block?", closeTime)
	}
}
