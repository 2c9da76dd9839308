package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lockWait is how long a statement waits for a row that a transaction has locked, in seconds, the least that
	// innodb_lock_wait_timeout takes on MySQL.
	lockWait = 1

	// maxTries bounds how often a statement is tried that the server gave up on for the sake of others. On a Galera
	// cluster that is ordinary: of several nodes that write a row at once all but one give up.
	maxTries = 20
	// The pause before the second try is at most minBackoff, and twice as long before each further one, up to maxBackoff.
	minBackoff = 2 * time.Millisecond
	maxBackoff = 100 * time.Millisecond
)

// A server runs statements on one table.
type server struct {
	db *sql.DB
	// shared says that others use the pool, so that no setting of its connections may be left changed.
	shared bool
	conns  int // of the pool, about
	table  string
	quick  chan struct{} // has an element for each call under way of which nobody watches the context

	sql      atomic.Pointer[renderer] // nil until the server has said what it is
	prepared sync.Map                 // of rendering to *sql.Stmt
}

// newServer returns one with a pool of its own.
func newServer(pool *sql.DB, conns int) *server {
	return &server{db: pool, conns: conns, quick: make(chan struct{}, conns)}
}

// exec runs a statement that writes, for so many keys.
func (s *server) exec(ctx context.Context, st *statement, keys int, args []any) (result sql.Result, err error) {
	err = s.try(ctx, func() error {
		text, err := s.render(ctx, st, keys)
		if err != nil {
			return err
		}
		if s.shared {
			return s.patient(ctx, func(c *sql.Conn) error {
				// Never by interpolation, if the pool's DSN asks for it: in gbk and the like that is unsafe.
				prepared, err := c.PrepareContext(ctx, text)
				if err != nil {
					return err
				}
				defer prepared.Close()
				result, err = prepared.ExecContext(ctx, args...)
				return err
			})
		}
		prepared, err := s.prepare(ctx, rendering{st, keys}, text) //nolint:sqlclosecheck // kept until the store is closed
		if err == nil && prepared != nil {
			result, err = prepared.ExecContext(ctx, args...)
		}
		if err == nil && prepared == nil || is(err, errTooManyPrepared) {
			result, err = s.db.ExecContext(ctx, text, args...)
		}
		return err
	})
	return result, err
}

// affected runs a statement and returns how many rows it changed or removed.
func (s *server) affected(ctx context.Context, st *statement, keys int, args []any) (int, error) {
	result, err := s.exec(ctx, st, keys, args)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// insertID runs a statement of one key and returns the number by which it answers.
func (s *server) insertID(ctx context.Context, st *statement, args []any) (int64, error) {
	result, err := s.exec(ctx, st, 1, args)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// query runs a statement that reads rows, for so many keys.
func (s *server) query(ctx context.Context, st *statement, keys int, args ...any) (found []*row, err error) {
	err = s.try(ctx, func() error {
		found = found[:0]
		rows, err := s.rows(ctx, st, keys, args)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scan(rows)
			if err != nil {
				return err
			}
			found = append(found, r)
		}
		return rows.Err()
	})
	return found, err
}

// digests runs a statement that reads keys alone.
func (s *server) digests(ctx context.Context, st *statement, keys int, args ...any) (found []digest, err error) {
	err = s.try(ctx, func() error {
		found = found[:0]
		rows, err := s.rows(ctx, st, keys, args)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var d sql.RawBytes
			if err := rows.Scan(&d); err != nil {
				return err
			}
			if len(d) != len(digest{}) {
				return fmt.Errorf("a digest is %d bytes long: the column is to be BINARY(%d)", len(d), len(digest{}))
			}
			found = append(found, digest(d))
		}
		return rows.Err()
	})
	return found, err
}

func (s *server) rows(ctx context.Context, st *statement, keys int, args []any) (*sql.Rows, error) {
	text, err := s.render(ctx, st, keys)
	if err != nil {
		return nil, err
	}
	if s.shared {
		return s.sharedRows(ctx, text, args)
	}
	prepared, err := s.prepare(ctx, rendering{st, keys}, text) //nolint:sqlclosecheck // kept until the store is closed
	var rows *sql.Rows
	if err == nil && prepared != nil {
		rows, err = prepared.QueryContext(ctx, args...)
	}
	if err == nil && prepared == nil || is(err, errTooManyPrepared) {
		return s.db.QueryContext(ctx, text, args...)
	}
	return rows, err
}

// sharedRows does not interpolate either.
func (s *server) sharedRows(ctx context.Context, text string, args []any) (*sql.Rows, error) {
	prepared, err := s.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer prepared.Close()                     // which takes effect when the rows have been read
	return prepared.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller does
}

// try runs f again when the server gave up on its statement for the sake of another, and has changed nothing.
func (s *server) try(ctx context.Context, f func() error) error {
	for n := 1; ; n++ {
		err := f()
		if err == nil || n == maxTries || !gaveWay(err) || ctx.Err() != nil {
			return err
		}
		// Those that met will not meet again.
		pause := time.NewTimer(rand.N(min(minBackoff<<(n-1), maxBackoff)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// prepare returns a statement that the pool prepares on each of its connections when it is first used there, or nil if it is to be sent as text, with
// its arguments in it. Each is something that the server keeps, and of which it has so many (max_prepared_stmt_count): past that
// it says so, and takes text.
func (s *server) prepare(ctx context.Context, st rendering, text string) (*sql.Stmt, error) {
	if st.keys != 1 && (!s.sql.Load().prepares || sharing(st.keys) != st.keys) {
		return nil, nil
	}
	if p, ok := s.prepared.Load(st); ok {
		return p.(*sql.Stmt), nil
	}
	mine, err := s.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	p, others := s.prepared.LoadOrStore(st, mine)
	if others {
		_ = mine.Close() //nolint:sqlclosecheck // somebody was faster
	}
	return p.(*sql.Stmt), nil
}

// patient gives f a connection of a shared pool that waits no longer for a lock than ours do, and then sets it back.
func (s *server) patient(ctx context.Context, f func(*sql.Conn) error) error {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var was int
	var autocommit bool
	if err := c.QueryRowContext(ctx, "SELECT @@SESSION.innodb_lock_wait_timeout, @@SESSION.autocommit").Scan(&was, &autocommit); err != nil {
		return err
	}
	if !autocommit {
		return errAutocommit
	}
	if was <= lockWait {
		return f(c)
	}
	set := func(ctx context.Context, seconds int) error {
		_, err := c.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = "+strconv.Itoa(seconds))
		return err
	}
	if err := set(ctx, lockWait); err != nil {
		return err
	}
	err = f(c)
	back, end := context.WithTimeout(context.WithoutCancel(ctx), lockWait*time.Second)
	defer end()
	if set(back, was) != nil {
		// Nobody else is to get it as it is now.
		_ = c.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

func (s *server) render(ctx context.Context, st *statement, keys int) (string, error) {
	r, err := s.renderer(ctx)
	if err != nil {
		return "", err
	}
	return r.render(st, keys), nil
}

// renderer asks the server what it is, once.
func (s *server) renderer(ctx context.Context) (*renderer, error) {
	if r := s.sql.Load(); r != nil {
		return r, nil
	}
	var version string
	var packet int
	if err := s.db.QueryRowContext(ctx, "SELECT VERSION(), @@max_allowed_packet").Scan(&version, &packet); err != nil {
		return nil, err
	}
	// Half, since bytes may double when they are escaped, and what is longer than allowed breaks the connection.
	r := &renderer{table: s.table, dialect: dialectOf(version), room: min(packet/2-fixedBytes, maxBytes)}
	// To read a long text costs MariaDB as much as to do what it says. MySQL does not mind.
	r.prepares = strings.Contains(version, "MariaDB")
	s.sql.CompareAndSwap(nil, r)
	return r, nil
}

// dialectOf reads what VERSION() says, such as 9.7.0, 8.0.36-28 (Percona), 10.11.14-MariaDB-0+deb12u2 or 8.0.11-TiDB-v8.5.0.
func dialectOf(version string) dialect {
	for _, other := range []string{"MariaDB", "TiDB", "Vitess"} {
		if strings.Contains(version, other) {
			return valuesFunction
		}
	}
	var number [3]int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &number[0], &number[1], &number[2]) // what is not there is 0
	if slices.Compare(number[:], []int{8, 0, 19}) >= 0 {
		return rowAlias
	}
	return valuesFunction
}

func (s *server) close() error {
	s.prepared.Range(func(_, p any) bool {
		_ = p.(*sql.Stmt).Close()
		return true
	})
	if s.shared {
		return nil
	}
	return s.db.Close()
}
