package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

const (
	maxPrefix = 128
	maxGroup  = 255 // as RocketMQ has it, here of the escaped name

	digestLen = 43 // of 32 bytes in base64url without padding
)

func validatePrefix(prefix string) error {
	if len(prefix) > maxPrefix {
		return fmt.Errorf("Prefix is %d bytes long: at most %d", len(prefix), maxPrefix)
	}
	for i := range len(prefix) {
		if c := prefix[i]; !plain(c) && c != ':' && c != '/' || c == '%' || c == '|' {
			// Braces would put every key into one slot of a Cluster; others mean something in a MATCH.
			return fmt.Errorf("Prefix has the character %q: letters, digits and . _ - / : are allowed", c)
		}
	}
	return nil
}

// plain says whether a byte of a group's name stands for itself. The percent sign separates a namespace from its group.
func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '_' || c == '-' || c == '.' || c == '%' || c == '|'
}

// escapeGroup returns group as key names have it: what is not plain as = and two hexadecimal digits, so that neither a colon, nor a brace
// (which would choose the Cluster's slot), nor what a MATCH would read as a pattern is left; and what is too long as == and its digest.
// Different groups give different names.
func escapeGroup(group string) string {
	escape := 0
	for i := range len(group) {
		if !plain(group[i]) {
			escape++
		}
	}
	if len(group)+2*escape > maxGroup {
		sum := sha256.Sum256([]byte(group))
		return "==" + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if escape == 0 {
		return group
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(group) + 2*escape)
	for i := range len(group) {
		if c := group[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// name returns the name of a record's key.
func (s *Store) name(k *rmqdedup.Key) string {
	var stack [maxPrefix + 1 + maxGroup + 1 + digestLen]byte
	b := append(stack[:0], s.prefix...)
	b = append(b, ':')
	b = append(b, escapeGroup(k.Group)...)
	b = append(b, ':')
	digest := k.Digest()
	return string(base64.RawURLEncoding.AppendEncode(b, digest[:]))
}

// pattern returns what a group's names MATCH, and nobody else's: the digest's length is part of it, since a longer prefix could
// look like this one and a group.
func (s *Store) pattern(group string) string {
	return s.prefix + ":" + escapeGroup(group) + ":" + strings.Repeat("?", digestLen)
}

var errForeignName = errors.New("its name ends in no digest, so this library did not write it: is the prefix somebody else's too?")

// digestOf returns the digest that a name ends in.
func digestOf(name string) (d [sha256.Size]byte, err error) {
	at := len(name) - digestLen
	if at < 0 {
		return d, errForeignName
	}
	n, err := base64.RawURLEncoding.Strict().Decode(d[:], []byte(name[at:]))
	if err != nil || n != len(d) {
		return d, errForeignName
	}
	return d, nil
}
