package rmqdedup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// A KeyKind says where a key's value comes from. Keys of different kinds are never equal.
type KeyKind uint8

// The kinds of keys. Their numbers are part of the digest and of what stores keep.
const (
	BusinessKey  KeyKind = 1 // what the key function returned
	MessageIDKey KeyKind = 2 // the message's ID, with a digest of its body
)

// String returns "business key" or "message ID".
func (k KeyKind) String() string {
	switch k {
	case BusinessKey:
		return "business key"
	case MessageIDKey:
		return "message ID"
	}
	return fmt.Sprintf("KeyKind(%d)", uint8(k))
}

// A Scope says which parts beside its value tell a key from others. The consumer group always does.
type Scope uint8

// The scopes.
const (
	// ScopeTag is the default: group, topic and tag. The tag is in it because it usually names the event ("paid", "shipped"), and
	// two events of one order are two pieces of work.
	ScopeTag Scope = iota
	// ScopeTopic leaves the tag out: one value is one piece of work of a topic, whatever its tag.
	ScopeTopic
	// ScopeGroup leaves out the topic as well: one value is one piece of work of the group, whichever topic brings it.
	ScopeGroup
)

// String returns "tag", "topic" or "group".
func (s Scope) String() string {
	switch s {
	case ScopeTag:
		return "tag"
	case ScopeTopic:
		return "topic"
	case ScopeGroup:
		return "group"
	}
	return fmt.Sprintf("Scope(%d)", uint8(s))
}

// A Key names one piece of work of one consumer group. Make it with [NewKey]. Two keys are the same piece of work when their
// digests are equal; its parts are there for people and for a checker.
type Key struct {
	Kind  KeyKind
	Group string // with its namespace, as in "ns%group"
	Topic string // empty under ScopeGroup
	Tag   string // empty under ScopeGroup and ScopeTopic
	Value string // what the key function returned, or the message ID

	digest [sha256.Size]byte
}

// NewKey returns the key of a value. Under a [Scope] that leaves out topic or tag these are dropped. The extra bytes, if any,
// are part of what tells the key from others; message-ID keys have the digest of the body there. Values are compared byte for
// byte and may be of any length.
func NewKey(kind KeyKind, scope Scope, group, topic, tag, value string, extra ...byte) Key {
	k := Key{Kind: kind, Group: group, Value: value}
	if scope == ScopeTag || scope == ScopeTopic {
		k.Topic = topic
	}
	if scope == ScopeTag {
		k.Tag = tag
	}
	// The encoding is fixed: changing a byte of it makes every record in every store unknown. Each part is preceded by its
	// length, so that no two lists of parts give the same bytes; the scope is in it, so that an empty tag differs from none.
	var stack [512]byte
	b := append(stack[:0], keyFormat, byte(kind), byte(scope))
	for _, part := range [...]string{k.Group, k.Topic, k.Tag, k.Value} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(len(extra)))
	b = append(b, extra...)
	k.digest = sha256.Sum256(b)
	return k
}

// keyFormat is the version of the encoding of keys.
const keyFormat = 1

// RestoreKey returns a key as a store kept it: parts that may be cut short, and the digest that decides.
func RestoreKey(parts Key, digest [sha256.Size]byte) Key {
	parts.digest = digest
	return parts
}

// Digest returns the SHA-256 of the key's parts, each preceded by its length: what stores use for the key, 32 bytes for any key.
func (k Key) Digest() [sha256.Size]byte { return k.digest }

// IsZero says whether k is no key at all.
func (k Key) IsZero() bool { return k.digest == [sha256.Size]byte{} }

// maxReadable is how much of a key's parts stores keep, in bytes.
const maxReadable = 1024

// Readable returns k as a store should keep it beside the digest: with its parts and value if these take no more than
// 1 KiB together, and without the value otherwise (the record's message ID then leads to it). Parts that are longer than that by
// themselves are left out as well, the tag first, then the topic; of a group that is, its beginning is kept.
func (k Key) Readable() Key {
	for _, part := range [...]*string{&k.Value, &k.Tag, &k.Topic} {
		if len(k.Group)+len(k.Topic)+len(k.Tag)+len(k.Value) <= maxReadable {
			break
		}
		*part = ""
	}
	k.Group = k.Group[:min(len(k.Group), maxReadable)]
	return k
}

// String returns the key for people, such as "orders/paid: order-17". It is cut to a length that suits a log line, with what is not
// printable escaped, and is no identity.
func (k Key) String() string {
	const longest = 120
	var b strings.Builder
	b.WriteString(k.Topic)
	if k.Tag != "" {
		b.WriteByte('/')
		b.WriteString(k.Tag)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	value := k.Value
	if value == "" {
		value = "#" + hex.EncodeToString(k.digest[:8])
	}
	if len(value) > longest {
		value = strings.ToValidUTF8(value[:longest], "") + "…"
	}
	b.WriteString(value)
	quoted := strconv.Quote(b.String())
	return quoted[1 : len(quoted)-1]
}

// Fingerprint returns the fingerprint of a body that records keep, so that "same key, another body" can be told. It is the 64-bit
// xxHash, the same in every process and release.
func Fingerprint(body []byte) uint64 { return xxhash.Sum64(body) }
