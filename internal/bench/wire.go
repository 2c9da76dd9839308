package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"time"
)

// The requests of RocketMQ's protocol that the client cannot be asked for: it deletes no groups, and does not say whether a topic has been made.
const (
	codeCreateTopic = 17
	codeRoute       = 105
	codeCluster     = 106
	codeDeleteGroup = 207
	codeDeleteTopic = 215
	codeDropRoute   = 216
)

// maxFrame is more than any answer to these.
const maxFrame = 16 << 20

// call makes one request on a connection of its own, and returns the body of the answer, which has to be good.
func call(ctx context.Context, address string, code int, fields map[string]string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	body, err := exchange(conn, code, fields)
	if err != nil {
		return nil, fmt.Errorf("request %d to %s: %w", code, address, err)
	}
	return body, nil
}

// exchange sends a frame and reads one: length of the rest, length of the header, header in JSON, body.
func exchange(conn io.ReadWriter, code int, fields map[string]string) ([]byte, error) {
	header, err := json.Marshal(map[string]any{
		"code": code, "flag": 0, "language": "GO", "version": 317, "opaque": 1, "extFields": fields, "serializeTypeCurrentRPC": "JSON",
	})
	if err != nil {
		return nil, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header))) //nolint:gosec // a few hundred bytes
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))  //nolint:gosec // as above
	if _, err := conn.Write(append(frame, header...)); err != nil {
		return nil, err
	}
	var lengths struct{ Frame, Header uint32 }
	if err := binary.Read(conn, binary.BigEndian, &lengths); err != nil {
		return nil, err
	}
	lengths.Header &= 1<<24 - 1 // the highest byte names the encoding
	if lengths.Frame > maxFrame || lengths.Frame < 4+lengths.Header {
		return nil, fmt.Errorf("an answer of %d bytes with a header of %d", lengths.Frame, lengths.Header)
	}
	answer := make([]byte, lengths.Frame-4)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	var head struct {
		Code   int
		Remark string
	}
	if err := json.Unmarshal(answer[:lengths.Header], &head); err != nil {
		return nil, err
	}
	if head.Code != 0 {
		return nil, fmt.Errorf("answered %d: %s", head.Code, head.Remark)
	}
	return answer[lengths.Header:], nil
}

// masterPattern finds the brokers' addresses. What the name server answers is JSON but for its keys, which are no strings.
var masterPattern = regexp.MustCompile(`"brokerAddrs":\{(?:[^}]*,)?"?0"?:"([^"]+)"`)
