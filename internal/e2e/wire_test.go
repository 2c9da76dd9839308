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
	codeMaxOffset       = 30
	codeHeartBeat       = 34
	codeListMembers     = 38
	codeRoute           = 105
	codeCluster         = 106
	codeDeleteTopic     = 215
	codeDropRoute       = 216
	codeResetOffset     = 222
	codeConsumeDirectly = 309

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

// call makes a request. A frame is: length of the rest, length of the header, header in JSON, body.
func (c caller) call(code int, fields map[string]string, body []byte) (answer, error) {
	header, err := json.Marshal(map[string]any{
		"code": code, "flag": 0, "language": "GO", "version": 317, "opaque": 1, "extFields": fields, "serializeTypeCurrentRPC": "JSON",
	})
	if err != nil {
		return answer{}, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	frame = append(append(frame, header...), body...)
	if _, err := c.Write(frame); err != nil {
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

func readAnswer(r io.Reader) (a answer, err error) {
	var lengths [8]byte
	if _, err := io.ReadFull(r, lengths[:]); err != nil {
		return a, err
	}
	total := binary.BigEndian.Uint32(lengths[:4])
	header := binary.BigEndian.Uint32(lengths[4:]) & 0xFFFFFF // the highest byte names the encoding
	if total > maxFrame || total < 4+header {
		return a, fmt.Errorf("a frame of %d bytes with a header of %d", total, header)
	}
	rest := make([]byte, total-4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return a, err
	}
	if err := json.Unmarshal(rest[:header], &a); err != nil {
		return a, fmt.Errorf("header %.200q: %w", rest[:header], err)
	}
	a.body = rest[header:]
	return a, nil
}
