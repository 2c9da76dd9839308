package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/internal/millis"
)

// A record is one string:
//
//	offset  bytes
//	     0      1  format: '1'
//	     1      1  kind: 'C' a claim, 'T' a claim that was taken over, 'D' done
//	     2     16  owner
//	    18      6  a claim's grace, or the time at which it was done since 1970, in milliseconds
//	    24      8  fingerprint of the body
//	    32      1  kind of the key
//	    33      …  attempt, then message ID, topic, tag and value, each after its length
//	     …      …  what a later release may add
//
// Numbers of fixed size are big-endian; attempt and lengths are varints of encoding/binary. Neither the group, which is in
// the key's name, nor a deadline, which is the key's expiry, is in it.
//
// The scripts read and write what is before offset 24 and hand on the rest; the rest may grow at its end without a new format, since what
// follows the value is not read. Anything else is a new format. See "Two versions at once" in the package documentation.
const (
	format = '1'

	kindClaim    = 'C'
	kindTakeover = 'T'
	kindDone     = 'D'

	ownerAt  = 2
	numberAt = 18
	restAt   = 24
)

var errFormat = errors.New("not a record of format 1: either a newer release of this library wrote it, which this process may not touch, or somebody else did, and the prefix is theirs too")

// lifetime returns how long the key of a claim lives, in milliseconds. No two durations can overflow it.
func lifetime(r *rmqdedup.Request) int64 { return millis.Of(r.Lease) + millis.Of(r.Grace) }

func appendNumber(b []byte, ms int64) []byte {
	return append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
}

func number(s string) int64 {
	return int64(s[0])<<40 | int64(s[1])<<32 | int64(s[2])<<24 | int64(s[3])<<16 | int64(s[4])<<8 | int64(s[5])
}

// usual is more than most records are long, so that they are put together on the stack.
const usual = 256

// claim returns the record of a claim that is no takeover.
func claim(r *rmqdedup.Request) string {
	var stack [usual]byte
	b := append(stack[:0], format, kindClaim)
	b = append(b, r.Owner[:]...)
	b = appendNumber(b, millis.Of(r.Grace))
	return string(appendRest(b, r))
}

// rest returns the part of a record that scripts hand on.
func rest(r *rmqdedup.Request) string {
	var stack [usual]byte
	return string(appendRest(stack[:0], r))
}

func appendRest(b []byte, r *rmqdedup.Request) []byte {
	k := r.Key.Readable()
	b = binary.BigEndian.AppendUint64(b, r.Fingerprint)
	b = append(b, byte(k.Kind))
	b = binary.AppendUvarint(b, uint64(min(max(r.Attempt, 0), math.MaxInt32)))
	for _, s := range [...]string{r.MessageID, k.Topic, k.Tag, k.Value} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func isDone(record string) bool {
	return len(record) >= restAt && record[0] == format && record[1] == kindDone
}

// decode reads a record. Its key has neither group nor digest, and its Until is left to the caller.
func decode(s string) (*rmqdedup.Record, error) {
	if len(s) < restAt || s[0] != format {
		return nil, errFormat
	}
	var r rmqdedup.Record
	copy(r.Owner[:], s[ownerAt:])
	switch s[1] {
	case kindClaim, kindTakeover:
		r.Grace = millis.Duration(number(s[numberAt:]))
	case kindDone:
		r.Done = true
		r.DoneAt = time.UnixMilli(number(s[numberAt:]))
	default:
		return nil, errFormat
	}
	in := input{s: s[restAt:]}
	r.Fingerprint = in.uint64()
	r.Key.Kind = rmqdedup.KeyKind(in.byte())
	r.Attempt = int(min(in.uvarint(), math.MaxInt32))
	r.MessageID = in.string()
	r.Key.Topic = in.string()
	r.Key.Tag = in.string()
	r.Key.Value = in.string()
	if in.short {
		return nil, fmt.Errorf("the record is %d bytes long and ends too early: something has cut it", len(s))
	}
	return &r, nil
}

// An input is what is left to read of a record. Reading past its end gives zeros, and is remembered.
type input struct {
	s     string
	short bool
}

func (in *input) take(n uint64) string {
	if n > uint64(len(in.s)) {
		in.s, in.short = "", true
		return ""
	}
	s := in.s[:n]
	in.s = in.s[n:]
	return s
}

func (in *input) byte() byte {
	if s := in.take(1); s != "" {
		return s[0]
	}
	return 0
}

func (in *input) uint64() (n uint64) {
	for _, c := range []byte(in.take(8)) {
		n = n<<8 | uint64(c)
	}
	return n
}

func (in *input) uvarint() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := in.byte()
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	in.short = true
	return 0
}

func (in *input) string() string { return in.take(in.uvarint()) }
