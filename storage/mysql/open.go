package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
)

const (
	// A pool shrinks after a burst, and follows a name in the DNS that has moved to another server.
	maxIdleTime = time.Minute
	maxLifetime = 5 * time.Minute
)

// Open returns the store that a URL or DSN names, with connections of its own, which [Store.Close] closes. It fails if the server
// cannot be reached, or [Store.Check] finds it unfit, before ctx or the time limit ends; warnings go to slog.Default().
func Open(ctx context.Context, urlOrDSN string) (*Store, error) {
	u, err := ParseURL(urlOrDSN)
	if err != nil {
		return nil, err
	}
	return u.Open(ctx)
}

// Open is [Open] of a URL that has been read.
func (u *URL) Open(ctx context.Context) (*Store, error) {
	s, err := u.connect()
	if err != nil {
		return nil, err
	}
	if u.config.Migrate {
		err = s.migrate(ctx)
	}
	var warnings []string
	if err == nil {
		warnings, err = s.check(ctx)
	}
	if err != nil {
		err = fmt.Errorf("storage/mysql: %s: %w%s", u, s.explain(ctx, err), u.hint(err))
		_ = s.Close() // what matters is why it is of no use
		return nil, err
	}
	for _, w := range warnings {
		slog.Default().WarnContext(ctx, w, "store", s.String())
	}
	return s, nil
}

// Migrate connects, creates the table if it is not there, see [Store.Migrate], and closes the connections.
func (u *URL) Migrate(ctx context.Context) error {
	s, err := u.connect()
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.migrate(ctx); err != nil {
		return fmt.Errorf("storage/mysql: %s: migrate: %w%s", u, s.explain(ctx, err), u.hint(err))
	}
	return nil
}

// connect returns a store that has not been looked at.
func (u *URL) connect() (*Store, error) {
	config := u.config.withDefaults()
	pool, err := openPool(u.driver.Clone(), u.conns, config.Timeout)
	if err != nil {
		return nil, fmt.Errorf("storage/mysql: %s: %w", u, err)
	}
	return newStore(newServer(pool, u.conns), nameOf(u.driver), config), nil
}

// hint returns what to look at when the server was not reached, to be put behind the error.
func (u *URL) hint(err error) string {
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case errors.As(err, &dns):
		return " (is the host's name right?)"
	case errors.As(err, &network), errors.Is(err, mysqldriver.ErrInvalidConn), errors.Is(err, driver.ErrBadConn):
		return " (does MySQL run there, and do host and port name it?)"
	}
	return ""
}
