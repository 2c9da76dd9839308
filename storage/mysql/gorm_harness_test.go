package mysql_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// newDB is a user's *gorm.DB, closed when the test ends.
func newDB(t testing.TB, dialector gorm.Dialector, settings ...func(*gorm.Config)) *gorm.DB {
	t.Helper()
	c := &gorm.Config{Logger: logger.Discard}
	for _, set := range settings {
		set(c)
	}
	db, err := gorm.Open(dialector, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if sqlDB, err := db.DB(); err == nil {
			_ = sqlDB.Close()
		}
	})
	return db
}

// pooled makes db over a pool of the user's, which has no DSN that the store could open more connections by.
func pooled(t testing.TB, server string, options ...string) gorm.Dialector {
	t.Helper()
	return gormmysql.New(gormmysql.Config{Conn: newAdmin(t, server, options...)})
}

// newStore is a store on db that has nothing to warn about.
func newStore(t testing.TB, db *gorm.DB, table string) *mysql.Store {
	t.Helper()
	var log bytes.Buffer
	s, err := mysql.New(db, mysql.Config{Table: table, Timeout: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if log.Len() > 0 {
		t.Errorf("New warns: %s", log.String())
	}
	return s
}

// A listener is a user's logger that is to hear nothing of what the store does.
type listener struct{ t testing.TB }

func (l listener) LogMode(logger.LogLevel) logger.Interface { return l }
func (l listener) Info(_ context.Context, s string, _ ...any) {
	l.t.Errorf("gorm's logger was told: %s", s)
}
func (l listener) Warn(_ context.Context, s string, _ ...any) {
	l.t.Errorf("gorm's logger was told: %s", s)
}
func (l listener) Error(_ context.Context, s string, _ ...any) {
	l.t.Errorf("gorm's logger was told: %s", s)
}
func (l listener) Trace(_ context.Context, _ time.Time, f func() (string, int64), _ error) {
	s, _ := f()
	l.t.Errorf("gorm's logger was told: %s", s)
}

// request is one for a key of that name.
func request(name string) rmqdedup.Request {
	return rmqdedup.Request{
		Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "group", "topic", "tag", name),
		Owner: rmqdedup.NewOwner(), Lease: time.Hour, Retention: time.Hour,
	}
}

// by is the request of somebody else.
func by(r rmqdedup.Request) rmqdedup.Request {
	r.Owner = rmqdedup.NewOwner()
	return r
}

// want makes a call and compares its answers.
func want(t testing.TB, s rmqdedup.Store, outcome rmqdedup.Outcome, op rmqdedup.Op, reqs ...rmqdedup.Request) {
	t.Helper()
	answers, err := rmqdedup.Do(context.WithoutCancel(t.Context()), s, op, reqs)
	if err != nil {
		t.Errorf("%v: %v; want %v", op, err, outcome)
		return
	}
	for i, a := range answers {
		if a.Err != nil || a.Outcome != outcome {
			t.Errorf("%v of %v: %v, error %v; want %v", op, reqs[i].Key, a.Outcome, a.Err, outcome)
		}
	}
}

// failing says that err says all of that, and nothing of a password.
func failing(t testing.TB, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one that says %q", says)
		return
	}
	for _, s := range append(says, "storage/mysql: ") {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q; want it to say %q", err, s)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %q shows a password", err)
	}
}

var discard = slog.New(slog.DiscardHandler)
