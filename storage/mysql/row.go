package mysql

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/internal/millis"
)

const (
	consuming = 1
	done      = 2

	columns = "digest, status, owner, origin, claimed_at, expires_at, grace, done_at, attempt, fingerprint, " +
		"key_kind, consumer_group, topic, tag, key_value, message_id"

	// maxText is how many bytes a column of text holds. What is longer is cut: it is there for people.
	maxText = 1024
)

type digest = [sha256.Size]byte

// A row is one of the table, and the server's time at which it was read.
type row struct {
	digest    digest
	status    int
	owner     rmqdedup.Owner
	origin    rmqdedup.Owner
	claimedAt int64
	expiresAt int64
	grace     int64
	doneAt    int64

	attempt     int64
	fingerprint int64
	kind        uint8
	group       string
	topic       string
	tag         string
	value       string
	messageID   string

	now int64
}

// scan reads what {columns}, {now} has selected.
func scan(rows *sql.Rows) (*row, error) {
	var r row
	var key, owner, origin sql.RawBytes
	err := rows.Scan(&key, &r.status, &owner, &origin, &r.claimedAt, &r.expiresAt, &r.grace, &r.doneAt, &r.attempt, &r.fingerprint,
		&r.kind, &r.group, &r.topic, &r.tag, &r.value, &r.messageID, &r.now)
	if err != nil {
		return nil, err
	}
	if copy(r.digest[:], key) != len(r.digest) || copy(r.owner[:], owner) != len(r.owner) || copy(r.origin[:], origin) != len(r.origin) {
		return nil, fmt.Errorf("digest, owner and origin are %d, %d and %d bytes long: they are to be BINARY(32), BINARY(16) and BINARY(16)",
			len(key), len(owner), len(origin))
	}
	if r.status != consuming && r.status != done {
		return nil, fmt.Errorf("status is %d, which this release does not know: a newer one wrote it", r.status)
	}
	return &r, nil
}

// live says that the row's time was ahead when it was read: of a claim that it is in flight, of what is DONE that it counts.
func (r *row) live() bool { return r.expiresAt > r.now }

func (r *row) inFlight() bool { return r.status == consuming && r.live() }

// claimOf says whether the row is that owner's claim, its deadline ahead or past.
func (r *row) claimOf(owner rmqdedup.Owner) bool { return r.status == consuming && r.owner == owner }

func (r *row) left() time.Duration { return millis.Duration(r.expiresAt - r.now) }

func (r *row) record() *rmqdedup.Record {
	rec := &rmqdedup.Record{
		Key: rmqdedup.RestoreKey(rmqdedup.Key{
			Kind: rmqdedup.KeyKind(r.kind), Group: r.group, Topic: r.topic, Tag: r.tag, Value: r.value,
		}, r.digest),
		Done: r.status == done, Owner: r.owner,
		MessageID: r.messageID, Attempt: int(r.attempt), Fingerprint: uint64(r.fingerprint),
		Until: time.UnixMilli(r.expiresAt),
	}
	if rec.Done {
		rec.DoneAt = time.UnixMilli(r.doneAt)
	} else {
		rec.Grace = millis.Duration(r.grace)
	}
	return rec
}

// text returns s as a column keeps it. As bytes, so that no character set is applied to it on its way.
func text(s string) []byte { return []byte(s[:min(len(s), maxText)]) }

// appendMessage appends the values of attempt to message_id, which acquire and complete_lost insert.
func appendMessage(args []any, q *rmqdedup.Request) []any {
	k := q.Key.Readable()
	return append(args, attempt(q), int64(q.Fingerprint), uint8(k.Kind),
		text(k.Group), text(k.Topic), text(k.Tag), text(k.Value), text(q.MessageID))
}

func attempt(q *rmqdedup.Request) int { return min(max(q.Attempt, 0), math.MaxInt32) }
