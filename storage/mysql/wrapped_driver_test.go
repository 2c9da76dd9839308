package mysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// wrappedDriver is a driver around the driver, as tracing puts one there, that wraps each error.
const wrappedDriver = "mysql around mysql"

func init() { sql.Register(wrappedDriver, wrapping{}) }

func wrap(err error) error {
	// What database/sql is told by identity.
	if err == nil || err == driver.ErrSkip || err == driver.ErrBadConn { //nolint:errorlint // as database/sql does
		return err
	}
	return fmt.Errorf("a driver around the driver: %w", err)
}

type wrapping struct{}

func (wrapping) Open(dsn string) (driver.Conn, error) {
	c, err := mysqldriver.MySQLDriver{}.Open(dsn)
	if err != nil {
		return nil, wrap(err)
	}
	return wrappedConn{c.(wrappable)}, nil
}

// wrappable is what a connection of the driver can do.
type wrappable interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

type wrappedConn struct{ wrappable }

func (c wrappedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.wrappable.ExecContext(ctx, query, args)
	return r, wrap(err)
}

func (c wrappedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.wrappable.QueryContext(ctx, query, args)
	return r, wrap(err)
}

func (c wrappedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.wrappable.PrepareContext(ctx, query)
	if err != nil {
		return nil, wrap(err)
	}
	return wrappedStmt{s.(wrappableStmt)}, nil
}

type wrappableStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type wrappedStmt struct{ wrappableStmt }

func (s wrappedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	r, err := s.wrappableStmt.ExecContext(ctx, args)
	return r, wrap(err)
}

func (s wrappedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	r, err := s.wrappableStmt.QueryContext(ctx, args)
	return r, wrap(err)
}
