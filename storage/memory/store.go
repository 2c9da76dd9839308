package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// DefaultMaxKeys is how many records a store holds unless its Config says otherwise.
const DefaultMaxKeys = 1_000_000

// A Config says how large a store may grow. The zero Config is ready to use.
type Config struct {
	// MaxKeys is the largest number of records, claims and DONE together. 0 means DefaultMaxKeys; it cannot be
	// negative.
	MaxKeys int
}

// A Store is a state table in memory. Make it with [New]; it is safe for concurrent use.
type Store struct {
	maxKeys int
	start   time.Time // all times within are since start: eight bytes each, and monotonic

	mu      sync.Mutex
	closed  bool
	records map[digest]*record
	claims  queue // the records that are claims, those first that will be absent first
	done    queue // the records that are DONE, likewise; apart, so that claims that come and go stay in a short queue
}

var (
	_ rmqdedup.Store    = (*Store)(nil)
	_ rmqdedup.Sweeper  = (*Store)(nil)
	_ rmqdedup.Lister   = (*Store)(nil)
	_ rmqdedup.Resolver = (*Store)(nil)
)

// New returns an empty store. It fails when c does not make sense.
func New(c Config) (*Store, error) {
	if c.MaxKeys < 0 {
		return nil, fmt.Errorf("memory: MaxKeys is %d; give the largest number of records, or 0 for %d", c.MaxKeys, DefaultMaxKeys)
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = DefaultMaxKeys
	}
	return &Store{maxKeys: c.MaxKeys, start: time.Now(), records: make(map[digest]*record)}, nil
}

// Close forgets every record; from then on operations fail with [rmqdedup.ErrClosed]. It waits for calls that are under
// way, never fails, and may be called again.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.records, s.claims, s.done = nil, nil, nil
	return nil
}

// Resolution returns one nanosecond: a lease of any length above zero is kept.
func (s *Store) Resolution() time.Duration { return time.Nanosecond }

// Age moves the deadline of key's claim, or the end of its retention, by that much towards the past, as if that time
// had gone by for it alone. It is for tests that cannot wait and do not want a bubble, and does nothing where there is
// no record.
func (s *Store) Age(key rmqdedup.Key, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.records[key.Digest()]; r != nil {
		r.until -= by
		r.gone -= by
		s.queueOf(r).fix(r)
	}
}

// lock takes the mutex for one call and returns the time at which the call acts. The caller unlocks, unless there is an
// error.
//
// The clock is read under the mutex, so that it never goes backwards from one call to the next: a call that waited
// would otherwise set a deadline earlier than one it was sent after.
func (s *Store) lock(ctx context.Context, what string) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("memory: %s: %w", what, err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, fmt.Errorf("memory: %s: %w", what, rmqdedup.ErrClosed)
	}
	return time.Since(s.start), nil
}

// find returns the record of a key, or nil if it is absent. A record past its time is dropped, and so absent.
func (s *Store) find(k rmqdedup.Key, now time.Duration) *record {
	r := s.records[k.Digest()]
	if r == nil || now < r.gone {
		return r
	}
	s.drop(r)
	return nil
}

// insert makes room for r, which has its times, and takes it in.
func (s *Store) insert(r *record, now time.Duration) error {
	if len(s.records) >= s.maxKeys {
		s.dropExpired(now, 1)
	}
	if len(s.records) >= s.maxKeys {
		return fmt.Errorf("memory: %w: it holds %d records that are still needed, its MaxKeys; "+
			"raise MaxKeys, shorten the retention, or use a store that is not bounded", rmqdedup.ErrFull, s.maxKeys)
	}
	s.records[r.key.Digest()] = r
	s.queueOf(r).push(r)
	return nil
}

// drop removes a record that the store holds.
func (s *Store) drop(r *record) {
	delete(s.records, r.key.Digest())
	s.queueOf(r).remove(r)
}

// dropExpired drops at most n claims and n DONE whose time has passed.
func (s *Store) dropExpired(now time.Duration, n int) {
	for range n {
		before := len(s.records)
		if r := s.claims.first(); r != nil && now >= r.gone {
			s.drop(r)
		}
		if r := s.done.first(); r != nil && now >= r.gone {
			s.drop(r)
		}
		if len(s.records) == before {
			return
		}
	}
}

func (s *Store) queueOf(r *record) *queue {
	if r.done {
		return &s.done
	}
	return &s.claims
}
