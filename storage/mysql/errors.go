package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Error numbers, by the MySQL error reference and MariaDB's list of error codes. They are recognised by number, since the texts
// differ between servers and languages, and whether gorm translates errors does not matter, as its callbacks are not used.
const (
	errTooManyConnections = 1040
	errDatabaseDenied     = 1044
	errAccessDenied       = 1045
	errUnknownDatabase    = 1049
	errUnknownColumn      = 1054
	errSyntax             = 1064
	errTableFull          = 1114
	errTableDenied        = 1142
	errColumnDenied       = 1143
	errNoTable            = 1146
	errPacketTooLarge     = 1153
	errNoIndex            = 1176
	errUnknownVariable    = 1193
	errLockWait           = 1205
	errDeadlock           = 1213
	errOptionPrevents     = 1290
	errTooManyPrepared    = 1461
	errReprepare          = 1615
	errReadOnlyTx         = 1792
	errReadOnlyMode       = 1836
	errRecordChanged      = 1020 // MariaDB, innodb_snapshot_isolation
	errWriteConflict      = 9007 // TiDB
)

func is(err error, numbers ...uint16) bool {
	var e *mysqldriver.MySQLError
	return errors.As(err, &e) && slices.Contains(numbers, e.Number)
}

// gaveWay says that the server gave up on a statement for the sake of another, and that the same one may well succeed now.
func gaveWay(err error) bool {
	return is(err, errDeadlock, errRecordChanged, errReprepare, errWriteConflict)
}

func locked(err error) bool { return is(err, errLockWait) }

func tooLong(err error) bool {
	return errors.Is(err, mysqldriver.ErrPktTooLarge) || is(err, errPacketTooLarge)
}

// broken says that a connection ended before there was an answer.
func broken(err error) bool {
	var network *net.OpError // while a statement was written, or a connection made
	return errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysqldriver.ErrInvalidConn) ||
		errors.As(err, &network) && !network.Timeout()
}

// unsupported says that the server does not know the statement.
func unsupported(err error) bool { return is(err, errSyntax) }

// explain returns err with what it means and what to do. The text of the server is kept, and so is what errors.Is finds.
func (s *Store) explain(parent context.Context, err error) error {
	switch {
	case errors.Is(err, rmqdedup.ErrClosed):
		return err
	case s.closed.Load():
		return rmqdedup.ErrClosed
	case parent.Err() != nil:
		return fmt.Errorf("%w while the server was waited for", parent.Err())
	case passed(parent, err):
		<-parent.Done() // any moment now
		return fmt.Errorf("%w while the server was waited for", parent.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from the server within the time limit of %v: %w", s.timeout, context.DeadlineExceeded)
	case broken(err):
		return fmt.Errorf("the connection broke: %w", err)
	case err.Error() == "sql: database is closed": // database/sql has no name for it
		return fmt.Errorf("%w: its connection pool has been closed (%w)", rmqdedup.ErrClosed, err)
	}
	if hint := s.hint(err); hint != "" {
		return fmt.Errorf("%w: %s", err, hint)
	}
	if is(err, errTableFull) {
		return fmt.Errorf("%w: %w", rmqdedup.ErrFull, err)
	}
	return err
}

// passed says whether err comes from the deadline of ctx. A connection that is dialled notices it a little before ctx does.
func passed(ctx context.Context, err error) bool {
	deadline, ok := ctx.Deadline()
	return ok && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)) && time.Until(deadline) < 10*time.Millisecond
}

// hint says what to do about what the server has refused.
func (s *Store) hint(err error) string {
	switch {
	case is(err, errNoTable):
		return fmt.Sprintf("create the table with Store.Migrate, with migrate=true in the URL, or by schema/v1.sql of this package (table %s)", s.table)
	case is(err, errUnknownColumn, errNoIndex):
		return fmt.Sprintf("the table %s is not as schema/v1.sql of this package makes it: Store.Check says in what", s.table)
	case is(err, errTableDenied, errColumnDenied, errDatabaseDenied):
		return fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON the table %s to the user (and CREATE, for Migrate)", s.table)
	case is(err, errAccessDenied):
		return "are user and password right?"
	case is(err, errUnknownDatabase):
		return "CREATE DATABASE first: this package makes a table, no database"
	case is(err, errOptionPrevents, errReadOnlyTx, errReadOnlyMode):
		return "the server is read-only, a replica perhaps: connect to the primary (with rejectReadOnly=true the driver drops a connection to one that was demoted)"
	case is(err, errUnknownVariable):
		return "an option of the URL or DSN that is neither this package's nor the driver's is set as a system variable, and there is none of that name"
	case tooLong(err):
		return "raise max_allowed_packet on the server, or maxAllowedPacket in the URL"
	case is(err, errTooManyConnections):
		return "lower max_conns in the URL, or raise max_connections on the server"
	}
	return ""
}
