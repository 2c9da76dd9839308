package mysql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/rmqdedup/rmqdedup-go/internal/coalesce"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The defaults of [Config].
const (
	DefaultTable   = "rmqdedup_state"
	DefaultTimeout = 3 * time.Second
)

// Resolution is what the store can tell apart. A lease, grace or retention that is no whole number of it is rounded up.
const Resolution = time.Millisecond

// A Config says how a [Store] uses its server. The zero Config is a good one.
type Config struct {
	// Table is the table's name: 1 to 64 letters, digits and _. It is in the database that the connection names. Stores with the same
	// table share their records. Default: "rmqdedup_state".
	Table string

	// Timeout ends every call, however long its context would have lived. What was sent by then may still take effect. It has
	// to leave room for the wait of a second for a locked row: at least 1.5 s. Default: 3 s.
	Timeout time.Duration

	// Uncoalesced has every call make its own round trip, where otherwise those that handlers make at the same time share one. Default: false.
	Uncoalesced bool

	// Migrate has [New] and [Open] create the table if it is not there, see [Store.Migrate]. Default: false.
	Migrate bool

	// Logger takes the warnings that [New] finds, once each. Default: slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Table == "" {
		c.Table = DefaultTable
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

const minTimeout = 1500 * time.Millisecond

func (c Config) validate() error {
	var problems []error
	if err := validateTable(c.Table); err != nil {
		problems = append(problems, err)
	}
	if c.Timeout < minTimeout {
		problems = append(problems, fmt.Errorf("Timeout is %v: a call needs at least %v, of which it may wait %d s for a locked row; leave it 0 for %v",
			c.Timeout, minTimeout, lockWait, DefaultTimeout))
	}
	return errors.Join(problems...)
}

// A Store keeps its records in one table of a MySQL or MariaDB server. It is safe for concurrent use, and has no goroutines of its
// own but those of its connection pool, and those that serve calls which came at the same time.
type Store struct {
	*server
	name    string
	timeout time.Duration
	closed  atomic.Bool
	calls   *coalesce.Coalescer // nil: each by itself

	warnings atomic.Pointer[[]string]
}

var (
	_ rmqdedup.Store    = (*Store)(nil)
	_ rmqdedup.Sweeper  = (*Store)(nil)
	_ rmqdedup.Lister   = (*Store)(nil)
	_ rmqdedup.Resolver = (*Store)(nil)
)

// New returns a store on the server of a *gorm.DB, whatever the settings of that are. It opens connections of its own, by the DSN
// of db, for two reasons: they wait a second for a lock, where those of an application wait for fifty; and handlers that hold
// every connection of a pool in transactions do not starve the renewal of their own claims. [Store.Close] closes them. A db that was made
// from a connection pool or by a driver of another name has no DSN to open more by: that pool is used, never closed, and each
// statement takes two to five round trips instead of one.
//
// A db inside a transaction is refused: a claim that is not committed protects nothing. With a plugin that splits reads from
// writes it is the connection of db itself that counts, that to the source.
//
// New creates the table if config.Migrate says so, and asks the server once for what [Store.Check] looks at. Of a server that cannot be
// reached, or is unfit, it logs a warning only: what becomes of messages meanwhile is the wrapper's outage policy.
func New(db *gorm.DB, config Config) (*Store, error) {
	config = config.withDefaults()
	server, name, err := adopt(db, config.Timeout)
	if invalid := config.validate(); invalid != nil || err != nil {
		if err == nil {
			_ = server.close()
		}
		return nil, fmt.Errorf("storage/mysql: %w", errors.Join(invalid, err))
	}
	s := newStore(server, name, config)
	ctx := context.Background()
	if config.Migrate {
		if err := s.Migrate(ctx); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	warnings, err := s.Check(ctx)
	if err != nil {
		warnings = append(warnings, "the server is not ready: "+err.Error())
	}
	for _, w := range warnings {
		config.Logger.Warn(w, "store", s.String())
	}
	return s, nil
}

func newStore(server *server, name string, config Config) *Store {
	server.table = config.Table
	s := &Store{server: server, name: name, timeout: config.Timeout}
	if !config.Uncoalesced {
		s.calls = coalesce.New(coalesce.Config{
			Name: "storage/mysql", Ops: together, Do: s.doAlone, Limit: s.timeout, Ping: s.db.PingContext, Gather: true,
			Size: func(keys int) int {
				if r := s.sql.Load(); r != nil && r.prepares {
					return sharing(keys)
				}
				return keys
			},
			Window: func(roundTrip time.Duration) int { return coalesce.Window(roundTrip, step, server.conns) },
		})
	}
	return s
}

// together are the operations that a message mostly takes. The others are rare, and of several keys they cost more statements.
var together = []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpComplete}

// step: see [coalesce.Window]. About the time in which a server handles a statement, if the disk does not hold it up.
const step = 50 * time.Microsecond

// begin returns the context of one call, and what ends it.
func (s *Store) begin(parent context.Context) (context.Context, context.CancelFunc, error) {
	if s.closed.Load() {
		return nil, nil, rmqdedup.ErrClosed
	}
	if err := parent.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(parent, s.timeout)
	return ctx, cancel, nil
}

// Close makes every later call fail with [rmqdedup.ErrClosed], and closes the connections that the store has opened; calls under
// way on these fail. Closing again does nothing.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	err := s.close()
	if s.calls != nil {
		s.calls.Close()
	}
	if err != nil {
		return fmt.Errorf("storage/mysql: close: %w", err)
	}
	return nil
}

// Resolution returns one millisecond, see [rmqdedup.Resolver].
func (s *Store) Resolution() time.Duration { return Resolution }

// String names server, database and table, such as "mysql 127.0.0.1:3306/orders rmqdedup_state". There is no password in it.
func (s *Store) String() string { return "mysql " + s.name + " " + s.table }
