package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
	"github.com/rmqdedup/rmqdedup-go/storage/storagetest"
)

// servers are those that most tests run on: what a test is called, and the variable that names the server's URL.
var servers = []struct{ name, variable string }{
	{"MySQL", "RMQDEDUP_MYSQL"},
	{"MariaDB", "RMQDEDUP_MARIADB"},
}

// onEach runs a test on each of the servers.
func onEach(t *testing.T, f func(t *testing.T, server string)) {
	t.Helper()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f(t, testenv.Require(t, s.variable))
		})
	}
}

func suite(server string, open opener) storagetest.Config {
	return storagetest.Config{
		NewTable:    func(t testing.TB) storagetest.Table { return newTable(t, server, open) },
		KeepsParts:  true,
		ServerClock: true,
	}
}

func TestStore(t *testing.T) {
	onEach(t, func(t *testing.T, server string) { storagetest.Run(t, suite(server, byURL())) })
}

func BenchmarkStore(b *testing.B) {
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) { storagetest.Bench(b, suite(testenv.Require(b, s.variable), byURL())) })
	}
}

// An opener opens a store on a table of a server.
type opener func(t testing.TB, server, table string) rmqdedup.Store

// byURL opens by the server's URL, with further options.
func byURL(options ...string) opener {
	return func(t testing.TB, server, table string) rmqdedup.Store {
		t.Helper()
		return open(t, withOptions(server, append([]string{"table=" + table, "call_timeout=30s"}, options...)...))
	}
}

func withOptions(url string, options ...string) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	if len(options) == 0 {
		return url
	}
	return url + separator + strings.Join(options, "&")
}

func open(t testing.TB, url string) *mysql.Store {
	t.Helper()
	s, err := mysql.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A table is one of its own on a server that others use too.
type table struct {
	server, name string
	admin        *sql.DB
	open         opener
}

func newTable(t testing.TB, server string, open opener) *table {
	t.Helper()
	tb := &table{server: server, name: newName(), admin: newAdmin(t, server), open: open}
	migrate(t, server, tb.name)
	t.Cleanup(func() { tb.exec(t, "DROP TABLE IF EXISTS `"+tb.name+"`") })
	return tb
}

func newName() string { return "test_" + rmqdedup.NewOwner().String() }

func migrate(t testing.TB, server, name string) {
	t.Helper()
	u, err := mysql.ParseURL(withOptions(server, "table="+name, "call_timeout=30s"))
	if err == nil {
		err = u.Migrate(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newAdmin connects without the package under test.
func newAdmin(t testing.TB, server string, options ...string) *sql.DB {
	t.Helper()
	return openDSN(t, dsnOf(server, options...))
}

func openDSN(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(4)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// dsnOf turns a URL without options into a DSN: mysql://root@host:port/test.
func dsnOf(server string, options ...string) string {
	user, rest, _ := strings.Cut(strings.TrimPrefix(server, "mysql://"), "@")
	address, database, _ := strings.Cut(rest, "/")
	return withOptions(user+"@tcp("+address+")/"+database, options...)
}

// Alone implements [storagetest.Aloner].
func (tb *table) Alone(t testing.TB) rmqdedup.Store {
	t.Helper()
	return byURL("coalesce=false")(t, tb.server, tb.name)
}

func (tb *table) Store(t testing.TB) rmqdedup.Store {
	t.Helper()
	return tb.open(t, tb.server, tb.name)
}

func (tb *table) Age(t testing.TB, key rmqdedup.Key, by time.Duration) {
	t.Helper()
	d := key.Digest()
	for {
		_, err := tb.admin.Exec(fmt.Sprintf("UPDATE `%s` SET expires_at = expires_at - ? WHERE digest = ?", tb.name), by.Milliseconds(), d[:])
		if e := (*mysqldriver.MySQLError)(nil); errors.As(err, &e) && e.Number == 1213 {
			continue
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
}

func (tb *table) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := tb.admin.Exec(query, args...); err != nil {
		t.Errorf("%s: %v", query, err)
	}
}
