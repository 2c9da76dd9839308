package mysql_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// A URL and a DSN that say the same open the same store.
func TestOpen(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, nil)
		r := request("key")
		want(t, open(t, withOptions(server, "table="+tb.name)), rmqdedup.Claimed, rmqdedup.OpAcquire, r)
		want(t, open(t, dsnOf(server, "table="+tb.name)), rmqdedup.InFlight, rmqdedup.OpAcquire, by(r))
		s := open(t, withOptions(server, "table="+tb.name))
		if text := s.String(); !strings.HasSuffix(text, "/"+databaseOf(server)+" "+tb.name) || !strings.HasPrefix(text, "mysql ") {
			t.Errorf("it prints as %s", text)
		}
		if s.Warnings() != nil {
			t.Errorf("warnings %q", s.Warnings())
		}
	})
}

// Whatever characters are in a password, it opens the store and is never shown.
func TestPasswords(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, nil)
		const password = `s3cret:/?#[]@!$&()*+,;= %"ß` + "`"
		u := tb.newUser(t, "SELECT, INSERT, UPDATE, DELETE ON `"+databaseOf(server)+"`.`"+tb.name+"`")
		tb.exec(t, "ALTER USER '"+u.name+"'@'%' IDENTIFIED BY '"+password+"'")
		_, rest, _ := strings.Cut(server, "@")
		host, database, _ := strings.Cut(rest, "/")
		encoded := strings.NewReplacer("%", "%25", "/", "%2F", "?", "%3F", "#", "%23", "@", "%40", " ", "%20").Replace(password)
		for _, url := range []string{
			"mysql://" + u.name + ":" + encoded + "@" + rest,
			u.name + ":" + password + "@tcp(" + host + ")/" + database,
		} {
			s := open(t, url+"?table="+tb.name)
			want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, request("key"))
			if strings.Contains(s.String(), "s3cret") {
				t.Errorf("it prints as %s", s)
			}
		}
	})
}

// When it cannot be opened, the error says what to do.
func TestUnfitServers(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, nil)
		u := tb.newUser(t, "SELECT, INSERT, UPDATE, DELETE ON `"+databaseOf(server)+"`.`"+tb.name+"`")
		good := u.url(server)
		for what, c := range map[string]struct {
			url  string
			says []string
		}{
			"a wrong password":       {strings.Replace(good, "s3cret", "s3cret1", 1), []string{"user and password right", u.name}},
			"an unknown user":        {strings.Replace(good, u.name, "test_nobody", 1), []string{"user and password right", "test_nobody"}},
			"an unknown database":    {strings.TrimSuffix(server, databaseOf(server)) + "no_such_database", []string{"no_such_database", "CREATE DATABASE"}},
			"a database of others":   {strings.TrimSuffix(good, databaseOf(server)) + "mysql", []string{u.name, "GRANT"}},
			"an unknown option":      {withOptions(good, "tabel=x"), []string{"'tabel'", "system variable", "neither this package's nor the driver's"}},
			"an unknown value":       {withOptions(good, "innodb_lock_wait_timeout=soon"), []string{"innodb_lock_wait_timeout"}},
			"nobody there":           {"mysql://user:s3cret@127.0.0.1:1/orders", []string{"mysql://127.0.0.1:1/orders", "does MySQL run there"}},
			"no such host":           {"mysql://user:s3cret@no-such-host.invalid/orders", []string{"no-such-host.invalid", "host's name"}},
			"no socket":              {"user:s3cret@unix(/nowhere/mysqld.sock)/orders", []string{"/nowhere/mysqld.sock", "does MySQL run there"}},
			"an unknown network":     {"user:s3cret@carrier-pigeon(home)/orders", []string{"carrier-pigeon"}},
			"somebody who is silent": {"mysql://user:s3cret@" + silent(t) + "/orders?call_timeout=1500ms", []string{"time limit of 1.5s", "does MySQL run there"}},
			"somebody who hangs up":  {"mysql://user:s3cret@" + hangingUp(t) + "/orders", []string{"connection broke", "does MySQL run there"}},
			"TLS that there is not":  {withOptions(server, "tls=true"), nil}, // each server has a reason of its own
			"no table":               {withOptions(server, "table=no_such_table"), []string{"no_such_table", databaseOf(server), "migrate=true", "schema/v1.sql"}},
		} {
			t.Run(what, func(t *testing.T) {
				url := c.url
				if !strings.Contains(url, "table=") && strings.HasSuffix(url, "/"+databaseOf(server)) {
					url = withOptions(url, "table="+tb.name)
				}
				s, err := mysql.Open(t.Context(), url)
				if err == nil {
					_ = s.Close()
				}
				failing(t, err, c.says...)
				if s != nil {
					t.Errorf("with an error comes a store: %v", s)
				}
			})
		}
	})
}

// silent is the address of a server that takes connections and says nothing.
func silent(t testing.TB) string { return listen(t, func(net.Conn) bool { return true }) }

// hangingUp is that of one that ends every connection.
func hangingUp(t testing.TB) string { return listen(t, func(net.Conn) bool { return false }) }

func listen(t testing.TB, keep func(net.Conn) bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if keep(c) {
				defer c.Close() //nolint:gocritic // until the listener is closed
			} else {
				_ = c.Close()
			}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l.Addr().String()
}

func TestOpenHonoursItsContext(t *testing.T) {
	address := silent(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for what, c := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"cancelled": {cancelled, context.Canceled},
		"deadline":  {short, context.DeadlineExceeded},
	} {
		u, err := mysql.ParseURL("mysql://user:s3cret@" + address + "/orders")
		if err != nil {
			t.Fatal(err)
		}
		_, err = u.Open(c.ctx)
		if failing(t, err, address); !errors.Is(err, c.want) || errors.Is(err, rmqdedup.ErrClosed) {
			t.Errorf("%s: open: %v; want one that wraps %v", what, err, c.want)
		}
		err = u.Migrate(c.ctx)
		if failing(t, err, address); !errors.Is(err, c.want) {
			t.Errorf("%s: migrate: %v; want one that wraps %v", what, err, c.want)
		}
	}
}

// With max_conns a store waits for a connection rather than open one more.
func TestMaxConns(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, nil)
		u := tb.newUser(t, "ALL ON `"+databaseOf(server)+"`.*")
		s := open(t, withOptions(u.url(server), "table="+tb.name, "max_conns=2", "call_timeout=30s"))
		ended := make(chan error)
		const calls = 8
		for range calls {
			go func() {
				_, err := s.Acquire(t.Context(), []rmqdedup.Request{request(rmqdedup.NewOwner().String())})
				ended <- err
			}()
		}
		for range calls {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if n := tb.sessions(t, u.name); n < 1 || n > 2 {
			t.Errorf("%d connections; want at most 2", n)
		}
	})
}
