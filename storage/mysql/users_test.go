package mysql_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A user of the server, with rights of its own.
type user struct{ name, password string }

// newUser makes a user with those rights until the test ends.
func (tb *table) newUser(t testing.TB, grants ...string) user {
	t.Helper()
	u := user{name: "test_" + rmqdedup.NewOwner().String()[:20], password: "s3cret"}
	tb.exec(t, "CREATE USER '"+u.name+"'@'%' IDENTIFIED BY '"+u.password+"'")
	t.Cleanup(func() { tb.exec(t, "DROP USER '"+u.name+"'@'%'") })
	for _, g := range grants {
		tb.exec(t, "GRANT "+g+" TO '"+u.name+"'@'%'")
	}
	return u
}

// url is the server's for that user.
func (u user) url(server string) string {
	_, rest, _ := strings.Cut(server, "@")
	return "mysql://" + u.name + ":" + u.password + "@" + rest
}

func databaseOf(server string) string { return server[strings.LastIndexByte(server, '/')+1:] }

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// eventually tries until it succeeds, for what a server does in its own time.
func eventually(t testing.TB, what string, try func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(30 * time.Second)
	for !try() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
