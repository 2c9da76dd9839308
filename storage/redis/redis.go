package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The defaults of [Config].
const (
	DefaultPrefix  = "rmqdedup"
	DefaultTimeout = 3 * time.Second
)

// Resolution is what the store can tell apart. A lease, grace or retention that is no whole number of it is rounded up.
const Resolution = time.Millisecond

// A Config says how a [Store] uses its server. The zero Config is a good one.
type Config struct {
	// Prefix begins the name of every key. Stores with the same prefix on the same server share their records; another prefix is another
	// table. At most 128 of the characters a-z A-Z 0-9 . _ - / and colon. Default: "rmqdedup".
	Prefix string

	// Timeout ends every call, whatever the client's options are and however long its context would have lived. What was
	// sent by then may still take effect. At least one millisecond. Default: 3 s.
	Timeout time.Duration

	// Uncoalesced has every call make its own round trip, where otherwise those that handlers make at the same time share one. Default: false.
	Uncoalesced bool

	// Logger takes the warnings that [New] finds about the server, once each. Default: slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	var problems []error
	if err := validatePrefix(c.Prefix); err != nil {
		problems = append(problems, err)
	}
	if c.Timeout < time.Millisecond {
		problems = append(problems, fmt.Errorf("Timeout is %v: a call needs at least 1ms; leave it 0 for %v", c.Timeout, DefaultTimeout))
	}
	return errors.Join(problems...)
}

// A Store keeps its records in Redis. It is safe for concurrent use, and has no goroutines of its own but those that serve calls which came
// at the same time.
type Store struct {
	prefix  string
	timeout time.Duration

	client  goredis.UniversalClient
	cluster *goredis.ClusterClient // client, where it is one
	owned   bool                   // opened by this package, which closes it
	closed  atomic.Bool

	// heeds says that the client itself ends a call with its context, so that the call need not be watched from outside.
	heeds bool
	// slots bounds how many calls a client that does not may have under way, the abandoned ones included.
	slots chan struct{}

	calls coalescers

	routed   atomic.Bool // the Cluster's slots are known
	oldSet   atomic.Bool // the server is older than SET with NX and GET (Redis 7.0)
	warnings atomic.Pointer[[]string]
}

var (
	_ rmqdedup.Store    = (*Store)(nil)
	_ rmqdedup.Lister   = (*Store)(nil)
	_ rmqdedup.Resolver = (*Store)(nil)
)

// New returns a store on a client that the caller made, owns, and closes after the store: a [goredis.Client], alone or behind Sentinel,
// or a [goredis.ClusterClient]. Any options will do, except that a client needs ReadTimeout or ContextTimeoutEnabled, without
// both of which a call on a dead connection would never end; with ContextTimeoutEnabled a call costs less. A
// [goredis.Ring] is refused, since it moves keys to another server when one fails, and with them every claim's protection.
//
// New asks the server once for what [Store.Check] looks at, and logs each warning. A server that cannot be reached is only
// such a warning: what becomes of messages meanwhile is the wrapper's outage policy.
func New(client goredis.UniversalClient, config Config) (*Store, error) {
	s, err := build(client, config)
	if err != nil {
		return nil, fmt.Errorf("storage/redis: %w", err)
	}
	logger := config.withDefaults().Logger
	warnings, err := s.Check(context.Background())
	if err != nil {
		warnings = append(warnings, "the server could not be checked: "+err.Error())
	}
	for _, w := range warnings {
		logger.Warn(w, "store", s.String())
	}
	return s, nil
}

// build is New without the server.
func build(client goredis.UniversalClient, config Config) (*Store, error) {
	config = config.withDefaults()
	s := &Store{prefix: config.Prefix, timeout: config.Timeout, client: client}
	err := errors.Join(config.validate(), s.adopt())
	if err != nil {
		return nil, err
	}
	s.calls.off = config.Uncoalesced
	if !s.heeds {
		s.slots = make(chan struct{}, maxUnheeding)
	}
	return s, nil
}

// adopt finds out how the client has to be treated.
func (s *Store) adopt() error {
	switch c := s.client.(type) {
	case nil:
		return errors.New("client is nil")
	case *goredis.Client:
		if c == nil {
			return errors.New("client is nil")
		}
		o := c.Options()
		s.heeds = o.ContextTimeoutEnabled
		return endless(s.heeds, o.ReadTimeout)
	case *goredis.ClusterClient:
		if c == nil {
			return errors.New("client is nil")
		}
		s.cluster = c
		o := c.Options()
		// With ReadOnly the client asks a node for its commands first, by a context of its own. (Scripts and SET are
		// no commands that it sends to replicas.)
		s.heeds = o.ContextTimeoutEnabled && !o.ReadOnly
		return endless(o.ContextTimeoutEnabled, o.ReadTimeout)
	case *goredis.Ring:
		return errors.New("the client is a goredis.Ring, which moves keys to another server when one fails and so loses claims: use Cluster or Sentinel")
	}
	return nil
}

func endless(contextTimeout bool, readTimeout time.Duration) error {
	// go-redis keeps "no time-out" as zero or less.
	if contextTimeout || readTimeout > 0 {
		return nil
	}
	return errors.New("the client has neither ContextTimeoutEnabled nor a ReadTimeout, so that a call on a dead connection would never end: set one of them")
}

// Close makes every later call fail with [rmqdedup.ErrClosed]. It closes the client only if [Open] made it; calls under way on that
// one fail. Closing again does nothing.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	defer s.calls.close()
	if !s.owned {
		return nil
	}
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("storage/redis: close: %w", err)
	}
	return nil
}

// Resolution returns one millisecond, see [rmqdedup.Resolver].
func (s *Store) Resolution() time.Duration { return Resolution }

// String names the server and the prefix, such as "redis 127.0.0.1:6379 rmqdedup:*". There is no password in it.
func (s *Store) String() string {
	where := fmt.Sprintf("%T", s.client)
	switch c := s.client.(type) {
	case *goredis.Client:
		where = c.Options().Addr
	case *goredis.ClusterClient:
		where = fmt.Sprint(c.Options().Addrs)
	}
	return "redis " + where + " " + s.prefix + ":*"
}
