package memory

import (
	"crypto/sha256"
	"math"
	"strings"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

type digest = [sha256.Size]byte

// A record is the state of one key that is not absent. Its times are since the store's start.
type record struct {
	key   rmqdedup.Key // as Readable leaves it
	owner rmqdedup.Owner
	done  bool

	takenOver bool          // of a claim: its owner took it over, and is told so each time it acquires
	grace     time.Duration // of a claim
	doneAt    time.Duration // of DONE

	until time.Duration // a claim's deadline, or the end of DONE's retention
	gone  time.Duration // when it is absent: until, and the grace after it
	index int           // in its queue

	messageID   string
	attempt     int
	fingerprint uint64
}

// claim makes r the claim of q's owner. The record's key is known.
func (r *record) claim(q *rmqdedup.Request, now time.Duration) {
	r.owner, r.done, r.doneAt = q.Owner, false, 0
	r.extend(q, now)
}

// extend sets a claim's deadline and grace anew.
func (r *record) extend(q *rmqdedup.Request, now time.Duration) {
	r.grace = q.Grace
	r.until = add(now, q.Lease)
	r.gone = add(r.until, q.Grace)
}

// finish makes r DONE by q's owner.
func (r *record) finish(q *rmqdedup.Request, now time.Duration) {
	r.owner, r.done, r.takenOver, r.grace = q.Owner, true, false, 0
	r.doneAt = now
	r.until = add(now, q.Retention)
	r.gone = r.until
}

// describe keeps what the request says of its message. Text is copied, in one piece: a message's properties are often
// slices of one long string, or of its whole body, which a record would hold in memory until its retention ends. The
// group is not copied, since it is the consumer's own.
func (r *record) describe(q *rmqdedup.Request) {
	r.attempt, r.fingerprint = q.Attempt, q.Fingerprint
	k := q.Key.Readable()
	if k == r.key && q.MessageID == r.messageID {
		return
	}
	var b strings.Builder
	b.Grow(len(k.Topic) + len(k.Tag) + len(k.Value) + len(q.MessageID))
	for _, part := range [...]string{k.Topic, k.Tag, k.Value, q.MessageID} {
		b.WriteString(part)
	}
	text := b.String()
	cut := func(n int) (part string) {
		part, text = text[:n], text[n:]
		return part
	}
	r.key = k
	r.key.Topic, r.key.Tag, r.key.Value = cut(len(k.Topic)), cut(len(k.Tag)), cut(len(k.Value))
	r.messageID = text
}

// public returns r as callers see it, in a copy of their own.
func (r *record) public(start time.Time) *rmqdedup.Record {
	p := &rmqdedup.Record{
		Key: r.key, Done: r.done, Owner: r.owner, Grace: r.grace,
		MessageID: r.messageID, Attempt: r.attempt, Fingerprint: r.fingerprint,
		Until: start.Add(r.until),
	}
	if r.done {
		p.DoneAt = start.Add(r.doneAt)
	}
	return p
}

// add returns t + d, or the last moment that there is.
func add(t, d time.Duration) time.Duration {
	if sum := t + d; sum >= t {
		return sum
	}
	return math.MaxInt64
}
