package rmqtest

import (
	"context"
	"errors"
	"io"
	"net"
)

// What the tests of frames and records see of the inside.

var (
	AppendRecord     = appendRecord
	DecodeProperties = decodeProperties
	EncodeProperties = encodeProperties
	DecodeBatch      = decodeBatch
	ErrFrame         = errFrame
)

func (m *Message) Check() error { return errors.Join(checkTopic(m.Topic), m.check()) }

// A Frame is a frame as the tests write it.
type Frame struct {
	Code, Flag int
	Opaque     int32
	Fields     map[string]string
	Body       []byte
}

func ReadFrame(r io.Reader) (Frame, error) {
	f, err := readFrame(r)
	return Frame{f.Code, f.Flag, f.Opaque, f.Fields, f.body}, err
}

func (f Frame) Encode() ([]byte, error) {
	return frame{header{Code: f.Code, Flag: f.Flag, Opaque: f.Opaque, Fields: f.Fields}, f.Body}.encode()
}

// Malformed says how many connections were ended because what came over them was no frame.
func (b *Broker) Malformed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.malformed
}

// ServeConn serves a connection that did not come over the network, until it ends.
func (b *Broker) ServeConn(nc net.Conn) { b.newConn(context.Background(), nc).serve() }
