package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
)

// The requests of RocketMQ's protocol that the harness makes itself, since the client's admin can create topics and little else.
const (
	codePull            = 11
	codeQueryOffset     = 14
	codeCommitOffset    = 15
	codeCreateTopic     = 17
	codeConfig          = 26
	codeMaxOffset       = 30
	codeHeartBeat       = 34
	codeListMembers     = 38
	codeRoute           = 105
	codeCluster         = 106
	codeDeleteTopic     = 215
	codeDropRoute       = 216
	codeResetOffset     = 222
	codeConsumeDirectly = 309
	codeUnknown         = 9999 // which every broker refuses

	statusFound         = 0
	statusError         = 1
	statusNothingNew    = 19
	statusOffsetUnknown = 22
)

// maxFrame is more than any answer that a story asks for.
const maxFrame = 16 << 20

// An answer is what a server says to one request.
type answer struct {
	Code   int               `json:"code"`
	Flag   int               `json:"flag"`
	Remark string            `json:"remark"`
	Fields map[string]string `json:"extFields"`
	body   []byte
}

func (a answer) error() error {
	if a.Code == statusFound {
		return nil
	}
	return fmt.Errorf("answered %d: %s", a.Code, a.Remark)
}

// call makes one request on a connection of its own.
func call(ctx context.Context, addr string, code int, fields map[string]string, body []byte) (answer, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	return c.call(code, fields, body)
}

// A caller is a connection for requests.
type caller struct{ net.Conn }

func dial(ctx context.Context, addr string) (caller, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	return caller{conn}, err
}

func (c caller) call(code int, fields map[string]string, body []byte) (answer, error) {
	frame, err := encode(map[string]any{
		"code": code, "flag": 0, "language": "GO", "version": 317, "opaque": 1, "extFields": fields, "serializeTypeCurrentRPC": "JSON",
	}, body)
	if err != nil {
		return answer{}, err
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		return answer{}, fmt.Errorf("request %d to %s: %w", code, c.RemoteAddr(), err)
	}
	for {
		a, err := readAnswer(c)
		if err != nil {
			return answer{}, fmt.Errorf("request %d to %s: %w", code, c.RemoteAddr(), err)
		}
		if a.Flag&1 != 0 { // an answer, not a request of the server's own
			return a, nil
		}
	}
}

// encode makes a frame, less its length: length of the header, header in JSON, body.
func encode(header map[string]any, body []byte) ([]byte, error) {
	h, err := json.Marshal(header)
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(h))), h...), body...), err
}

// decode takes a frame, less its length, apart.
func decode(frame []byte, header any) (body []byte, err error) {
	if len(frame) < 4 {
		return nil, fmt.Errorf("a frame of %d bytes", len(frame))
	}
	length, rest := binary.BigEndian.Uint32(frame)&0xFFFFFF, frame[4:] // the highest byte names the encoding
	if int(length) > len(rest) {
		return nil, fmt.Errorf("a frame of %d bytes with a header of %d", len(frame), length)
	}
	if err := json.Unmarshal(rest[:length], header); err != nil {
		return nil, fmt.Errorf("header %.200q: %w", rest[:length], err)
	}
	return rest[length:], nil
}

func readAnswer(r io.Reader) (a answer, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return a, err
	}
	total := binary.BigEndian.Uint32(length[:])
	if total > maxFrame {
		return a, fmt.Errorf("a frame of %d bytes", total)
	}
	frame := make([]byte, total)
	if _, err := io.ReadFull(r, frame); err != nil {
		return a, err
	}
	a.body, err = decode(frame, &a)
	return a, err
}
