package rmqtest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

const (
	// idleTime ends a connection over which nothing comes; a client's heart beats every 30 s.
	idleTime = 120 * time.Second
	// writeTime ends a connection whose client does not read.
	writeTime = 5 * time.Second
	// closeGrace is how long a client may take to close its end.
	closeGrace = 200 * time.Millisecond
)

// A conn is one client's connection: of its name server part or of its broker part, both end here.
type conn struct {
	b      *Broker
	nc     net.Conn
	remote netip.AddrPort
	ctx    context.Context // ends when the connection ends or is to end
	end    context.CancelFunc
	tasks  sync.WaitGroup // what runs beside the reader; only the reader and the tasks themselves add to it

	writing sync.Mutex

	// Guarded by b.mu.
	client string               // the client ID, once a heart beat told it
	asked  map[string]bool      // groups that the client was asked to join
	calls  map[int32]chan frame // our requests that wait for the client's answer
	opaque int32

	balances map[string]*balancing // by group
}

func (b *Broker) newConn(ctx context.Context, nc net.Conn) *conn {
	c := &conn{
		b: b, nc: nc, asked: make(map[string]bool), calls: make(map[int32]chan frame),
		balances: make(map[string]*balancing),
	}
	if addr, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.remote = netip.AddrPortFrom(addr.AddrPort().Addr().Unmap(), addr.AddrPort().Port())
	}
	c.ctx, c.end = context.WithCancel(ctx)
	return c
}

// serve reads requests until the connection ends; all that it started has ended when it returns.
func (c *conn) serve() {
	defer c.b.leave(c)
	defer c.close()
	defer c.tasks.Wait()
	defer c.end()
	for {
		_ = c.nc.SetReadDeadline(time.Now().Add(idleTime))
		if c.ctx.Err() != nil {
			return
		}
		f, err := readFrame(c.nc)
		if err != nil {
			c.lost(err)
			return
		}
		if f.Flag&flagResponse != 0 {
			c.answered(f)
			continue
		}
		c.handle(newRequest(f, c.clientID()))
	}
}

// lost counts a connection that is given up because no frame came over it.
func (c *conn) lost(err error) {
	if errors.Is(err, errFrame) {
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		c.b.malformed++
		c.b.changed()
	}
}

// hangUp ends the connection after its held pulls have been answered.
func (c *conn) hangUp() {
	c.end()
	_ = c.nc.SetReadDeadline(time.Now())
}

// close says good-bye and lets the client close first: what it has sent and nobody read would make this a reset.
func (c *conn) close() {
	defer c.nc.Close()
	if half, ok := c.nc.(*net.TCPConn); ok && half.CloseWrite() == nil {
		_ = c.nc.SetReadDeadline(time.Now().Add(closeGrace))
		_, _ = io.Copy(io.Discard, c.nc)
	}
}

func (c *conn) clientID() string {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.client
}

// handle works on one request: at once, so that a client's requests take effect in their order, or beside the reader if
// it has to wait for something.
func (c *conn) handle(r *Request) {
	action := c.b.decide(r)
	if action.Before != (Pause{}) || action.After != (Pause{}) {
		c.tasks.Go(func() { c.perform(r, action) })
		return
	}
	c.perform(r, action)
}

func (c *conn) perform(r *Request, action Action) {
	if !action.Before.wait(c.ctx) {
		return
	}
	var res answer
	if !action.Skip {
		res = c.b.work(c, r)
	}
	if res.hold != nil && !action.Silent && !action.Cut && action.Answer == nil {
		c.tasks.Go(func() { c.finish(r, action, res.hold()) })
		return
	}
	c.finish(r, action, res)
}

func (c *conn) finish(r *Request, action Action, res answer) {
	if !action.After.wait(c.ctx) {
		return
	}
	switch {
	case action.Cut:
		_ = c.nc.Close()
		return
	case action.Silent:
		return
	case action.Answer != nil:
		own := action.Answer
		res = answer{status: own.Status, remark: own.Remark, fields: own.Fields, body: own.Body}
	}
	if res.sent != nil {
		c.b.mu.Lock()
		res.sent()
		c.b.changed()
		c.b.mu.Unlock()
	}
	c.write(frame{
		header: header{
			Code: int(res.status), Flag: flagResponse, Opaque: r.opaque, Remark: res.remark, Fields: res.fields,
		},
		body: res.body,
	})
}

// write sends a frame, or ends the connection of a client that does not read. One that has gone is left to the reader, which first takes in what
// the client still sent, such as the offsets of a consumer that was shut down.
func (c *conn) write(f frame) {
	data, err := f.encode()
	if err == nil {
		c.writing.Lock()
		defer c.writing.Unlock()
		_ = c.nc.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err = c.nc.Write(data); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
	if err != nil {
		_ = c.nc.Close()
	}
}
