package mysql_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// A db that cannot serve is refused, and nothing is asked of a server for that.
func TestNewRefuses(t *testing.T) {
	failed := newOfflineDB(t, "user:s3cret@tcp(127.0.0.1:1)/orders")
	_ = failed.AddError(errors.New("an earlier failure"))
	for what, c := range map[string]struct {
		db     *gorm.DB
		config mysql.Config
		says   []string
	}{
		"no db":               {nil, mysql.Config{}, []string{"db is nil"}},
		"an empty db":         {&gorm.DB{Config: &gorm.Config{}}, mysql.Config{}, []string{"not one of gorm.io/driver/mysql"}},
		"a db with an error":  {failed, mysql.Config{}, []string{"db has an error already: an earlier failure"}},
		"another database":    {newForeignDB(t), mysql.Config{}, []string{"not one of gorm.io/driver/mysql"}},
		"no database":         {newOfflineDB(t, "user:s3cret@tcp(127.0.0.1:1)/"), mysql.Config{}, []string{"the DSN of db", "names no database"}},
		"a pool that is none": {&gorm.DB{Config: &gorm.Config{Dialector: gormmysql.New(gormmysql.Config{})}}, mysql.Config{}, []string{"no connection pool"}},
		"a bad table":         {newOfflineDB(t, "tcp(127.0.0.1:1)/orders"), mysql.Config{Table: "shop.orders"}, []string{`"shop.orders"`, "letters, digits and _"}},
		"a long table":        {newOfflineDB(t, "tcp(127.0.0.1:1)/orders"), mysql.Config{Table: strings.Repeat("a", 65)}, []string{"1 to 64"}},
		"a short timeout":     {newOfflineDB(t, "tcp(127.0.0.1:1)/orders"), mysql.Config{Timeout: time.Second}, []string{"Timeout is 1s", "1.5s"}},
		"all at once":         {nil, mysql.Config{Table: "a-b", Timeout: -1}, []string{`"a-b"`, "Timeout is -1ns", "db is nil"}},
	} {
		t.Run(what, func(t *testing.T) {
			s, err := mysql.New(c.db, c.config)
			failing(t, err, c.says...)
			if s != nil {
				t.Errorf("with an error comes a store: %v", s)
			}
		})
	}
}

// newOfflineDB is one whose server has not been asked for anything.
func newOfflineDB(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	dialector := gormmysql.New(gormmysql.Config{DSN: dsn, SkipInitializeWithVersion: true})
	return newDB(t, dialector, func(c *gorm.Config) { c.DisableAutomaticPing = true })
}

// A foreign dialect is that of another database.
type foreign struct{ gorm.Dialector }

func (foreign) Name() string                                   { return "postgres" }
func (foreign) Initialize(*gorm.DB) error                      { return nil }
func (foreign) Migrator(*gorm.DB) gorm.Migrator                { return nil }
func (foreign) DataTypeOf(*schema.Field) string                { return "" }
func (foreign) DefaultValueOf(*schema.Field) clause.Expression { return nil }
func (foreign) BindVarTo(clause.Writer, *gorm.Statement, any)  {}
func (foreign) QuoteTo(clause.Writer, string)                  {}
func (foreign) Explain(sql string, _ ...any) string            { return sql }

func newForeignDB(t testing.TB) *gorm.DB {
	t.Helper()
	return newDB(t, foreign{}, func(c *gorm.Config) { c.DisableAutomaticPing = true })
}

// A claim that is made in a transaction protects nothing until that commits, and is gone if it does not.
func TestNewRefusesTransactions(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		for what, set := range map[string]func(*gorm.Config){
			"as it comes": func(*gorm.Config) {},
			"PrepareStmt": settings[11][1].gorm,
			"no nesting":  func(c *gorm.Config) { c.DisableNestedTransaction = true },
		} {
			for kind, dialector := range map[string]gorm.Dialector{"DSN": gormmysql.Open(dsnOf(server)), "pool": pooled(t, server)} {
				refuse := func(how string, db *gorm.DB) {
					t.Helper()
					s, err := mysql.New(db, mysql.Config{Table: tb.name})
					if s != nil {
						_ = s.Close()
					}
					if err == nil || !strings.Contains(err.Error(), "inside a transaction") {
						t.Errorf("%s, %s, %s: error %v; want one that says so", what, kind, how, err)
					}
				}
				db := newDB(t, dialector, set)
				begun := db.Begin()
				refuse("Begin", begun)
				refuse("a session of it", begun.Session(&gorm.Session{NewDB: true}))
				refuse("a clause of it", begun.Where("1 = 1"))
				begun.Rollback()
				err := db.Transaction(func(tx *gorm.DB) error {
					refuse("Transaction", tx)
					return tx.Transaction(func(inner *gorm.DB) error {
						refuse("a nested one", inner)
						return nil
					})
				})
				if err != nil {
					t.Error(err)
				}
				// What it was begun on is as good as before.
				newStore(t, db, tb.name)
			}
			// One that was begun without gorm.
			tx, err := newAdmin(t, server).Begin()
			if err != nil {
				t.Fatal(err)
			}
			db := newDB(t, gormmysql.New(gormmysql.Config{Conn: tx}), set, func(c *gorm.Config) { c.DisableAutomaticPing = true })
			if s, err := mysql.New(db, mysql.Config{Table: tb.name}); err == nil {
				_ = s.Close()
				t.Errorf("%s: a db that was opened on a transaction is taken", what)
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Connections of the store's own end with it, and a pool of the user's does not.
func TestClose(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		for how, dialector := range map[string]gorm.Dialector{"DSN": gormmysql.Open(dsnOf(server)), "pool": pooled(t, server)} {
			db := newDB(t, dialector)
			s := newStore(t, db, tb.name)
			r := request(how)
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
			for range 2 {
				if err := s.Close(); err != nil {
					t.Errorf("%s: close: %v", how, err)
				}
			}
			if _, err := s.Lookup(t.Context(), []rmqdedup.Request{r}); !errors.Is(err, rmqdedup.ErrClosed) {
				t.Errorf("%s: after Close: %v", how, err)
			}
			if err := db.Exec("SELECT 1").Error; err != nil {
				t.Errorf("%s: Close closes the user's pool: %v", how, err)
			}
			// The other way round.
			s = newStore(t, db, tb.name)
			sqlDB, err := db.DB()
			if err == nil {
				err = sqlDB.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			if how == "DSN" {
				want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, by(r))
			} else if _, err := s.Lookup(t.Context(), []rmqdedup.Request{r}); !errors.Is(err, rmqdedup.ErrClosed) {
				t.Errorf("%s: after the user has closed it: %v", how, err)
			}
		}
	})
}

// What a store has opened on the server, connections and prepared statements, is gone when it is closed.
func TestCloseEndsItsSessions(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		user := tb.newUser(t, "ALL ON `"+databaseOf(server)+"`.*")
		s := open(t, withOptions(user.url(server), "table="+tb.name))
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, request("a"))
		if n := tb.sessions(t, user.name); n == 0 {
			t.Error("the store has no session: this test looks in the wrong place")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		eventually(t, "the store's sessions end", func() bool { return tb.sessions(t, user.name) == 0 })
	})
}

func (tb *table) sessions(t testing.TB, user string) (n int) {
	t.Helper()
	query := "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_USER = ?"
	if isMariaDB(t, tb.server) {
		// Which has no performance schema unless told to. MySQL fails on this one while others run statements that are not all text.
		query = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = ?"
	}
	if err := tb.admin.QueryRow(query, user).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// New makes a store although the server cannot be reached: whether messages wait for it is the wrapper's policy.
func TestNewWithoutServer(t *testing.T) {
	var log strings.Builder
	s, err := mysql.New(newOfflineDB(t, "user:s3cret@tcp(127.0.0.1:1)/orders"), mysql.Config{Logger: textLogger(&log)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !strings.Contains(log.String(), "not ready") || !strings.Contains(log.String(), "127.0.0.1:1/orders") || strings.Contains(log.String(), "s3cret") {
		t.Errorf("it logs %q; want that the server is not ready, and no password", log.String())
	}
	if s.Warnings() != nil {
		t.Errorf("warnings %q of a check that did not come to its end", s.Warnings())
	}
	if text := s.String(); text != "mysql 127.0.0.1:1/orders rmqdedup_state" {
		t.Errorf("it prints as %s", text)
	}
	_, err = s.Acquire(t.Context(), []rmqdedup.Request{request("key")})
	failing(t, err, "127.0.0.1:1")
}

// With Migrate the table has to be there when New returns, so without a server there is no store.
func TestNewMigrates(t *testing.T) {
	s, err := mysql.New(newOfflineDB(t, "user:s3cret@tcp(127.0.0.1:1)/orders"), mysql.Config{Migrate: true, Logger: discard})
	failing(t, err, "migrate", "127.0.0.1:1")
	if s != nil {
		t.Error("with an error comes a store")
	}
	onEach(t, func(t *testing.T, server string) {
		for how, dialector := range map[string]gorm.Dialector{"DSN": gormmysql.Open(dsnOf(server)), "pool": pooled(t, server)} {
			tb := newTable(t, server, nil)
			tb.exec(t, "DROP TABLE `"+tb.name+"`")
			s, err := mysql.New(newDB(t, dialector), mysql.Config{Table: tb.name, Migrate: true, Logger: discard})
			if err != nil {
				t.Fatal(how, err)
			}
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, request("key"))
			_ = s.Close()
		}
	})
}
