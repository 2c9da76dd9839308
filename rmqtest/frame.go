package rmqtest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A frame, big endian:
//
//	int32 total | int32 header word | header | body
//
// total counts what follows it. The header word's top byte is the header's codec, 0 for JSON, and the rest its length.
const (
	maxFrame  = 16 << 20
	codecJSON = 0

	flagResponse = 1 // the frame answers the request that has the same opaque
	flagOneWay   = 2 // no answer is expected

	// brokerVersion stands in every header; the client keeps the one of the heart beat's answer.
	brokerVersion = 513
)

var errFrame = errors.New("malformed frame")

// A header is a frame's JSON part. Field values are strings, even numbers: the client takes nothing else.
type header struct {
	Code     int               `json:"code"`
	Flag     int               `json:"flag"`
	Language string            `json:"language"`
	Opaque   int32             `json:"opaque"`
	Version  int               `json:"version"`
	Remark   string            `json:"remark,omitempty"`
	Fields   map[string]string `json:"extFields,omitempty"`
}

type frame struct {
	header
	body []byte
}

// readFrame reads one frame. An error that matches errFrame means that what came is not one.
func readFrame(r io.Reader) (frame, error) {
	var lead [8]byte
	if _, err := io.ReadFull(r, lead[:4]); err != nil {
		return frame{}, err
	}
	total := int64(int32(binary.BigEndian.Uint32(lead[:4])))
	if total < 4 || total > maxFrame {
		return frame{}, fmt.Errorf("%w: a length of %d", errFrame, total)
	}
	if _, err := io.ReadFull(r, lead[4:]); err != nil {
		return frame{}, err
	}
	word := binary.BigEndian.Uint32(lead[4:])
	codec, length := word>>24, int64(word&0xFFFFFF)
	if codec != codecJSON || length > total-4 {
		return frame{}, fmt.Errorf("%w: codec %d, header of %d bytes in a frame of %d", errFrame, codec, length, total)
	}
	// Memory grows with what arrives, not with what is announced.
	data, err := io.ReadAll(io.LimitReader(r, total-4))
	if err != nil {
		return frame{}, err
	}
	if int64(len(data)) < total-4 {
		return frame{}, io.ErrUnexpectedEOF
	}
	f := frame{body: data[length:]}
	if err := json.Unmarshal(data[:length], &f.header); err != nil {
		return frame{}, fmt.Errorf("%w: header: %w", errFrame, err)
	}
	return f, nil
}

// encode returns the frame as bytes.
func (f frame) encode() ([]byte, error) {
	f.Language, f.Version = "GO", brokerVersion
	head, err := json.Marshal(f.header)
	if err != nil {
		return nil, err
	}
	total := 4 + len(head) + len(f.body)
	if total > maxFrame || len(head) > 0xFFFFFF {
		return nil, fmt.Errorf("%w: %d bytes to send, the most is %d", errFrame, total, maxFrame)
	}
	buf := make([]byte, 0, 4+total)
	buf = binary.BigEndian.AppendUint32(buf, uint32(total))
	buf = binary.BigEndian.AppendUint32(buf, codecJSON<<24|uint32(len(head)))
	buf = append(buf, head...)
	return append(buf, f.body...), nil
}
