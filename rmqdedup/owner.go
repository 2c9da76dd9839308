package rmqdedup

import (
	"crypto/rand"
	"encoding/hex"
)

// An Owner is the random token that a claim carries. Each claim has one of its own: it comes from the system's random source, never from a host
// name, a process or a client ID, which repeat between containers.
type Owner [16]byte

// NewOwner returns an owner that nobody has. It is safe for concurrent use.
func NewOwner() Owner {
	var o Owner
	_, _ = rand.Read(o[:]) // never fails: crypto/rand ends the process instead
	return o
}

// IsZero says whether o is no owner at all.
func (o Owner) IsZero() bool { return o == Owner{} }

// String returns the owner in 32 hexadecimal digits.
func (o Owner) String() string { return hex.EncodeToString(o[:]) }
