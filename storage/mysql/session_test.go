package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	gormmysql "gorm.io/driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// A user's pool is left as it was after calls of every kind of end: its transactions wait for locks as long as they did, and nothing else of
// its sessions has changed.
func TestSharedPoolIsLeftAsItWas(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		pool := newAdmin(t, server, "innodb_lock_wait_timeout=7")
		pool.SetMaxOpenConns(1) // so that whatever is left behind is found
		db := newDB(t, gormmysql.New(gormmysql.Config{Conn: pool}))
		s := newStore(t, db, tb.name)
		missing := newStoreOnMissingTable(t, server, pool)
		r := request("key")
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
		before := session(t, pool)
		unchanged := func(after string) {
			t.Helper()
			is := session(t, pool)
			for name := range maps.Keys(before) {
				if is[name] != before[name] {
					t.Errorf("after %s: %s is %s and was %s", after, name, is[name], before[name])
				}
			}
		}

		for _, op := range []rmqdedup.Op{rmqdedup.OpRenew, rmqdedup.OpLookup, rmqdedup.OpComplete, rmqdedup.OpForget, rmqdedup.OpAcquire, rmqdedup.OpAbandon} {
			for i, a := range mustDo(t, s, op, r, request("other")) {
				if a.Err != nil {
					t.Errorf("%v of request %d: %v", op, i, a.Err)
				}
			}
			unchanged(op.String())
		}
		if _, err := s.Purge(t.Context(), 10); err != nil {
			t.Error(err)
		}
		unchanged("a purge")

		if _, err := missing.Acquire(t.Context(), []rmqdedup.Request{r}); err == nil {
			t.Error("there is a table that should be missing")
		}
		unchanged("an error")

		tb.lock(t, r.Key)
		if answers := mustDo(t, s, rmqdedup.OpAcquire, by(r)); answers[0].Outcome != rmqdedup.InFlight {
			t.Errorf("a locked row: %v", answers)
		}
		unchanged("the wait for a lock")

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if answers, err := s.Acquire(ctx, []rmqdedup.Request{by(r)}); err == nil {
			t.Errorf("it did not end with its context: %v", answers)
		}
		unchanged("a context that ended while a lock was waited for")
	})
}

func mustDo(t testing.TB, s rmqdedup.Store, op rmqdedup.Op, reqs ...rmqdedup.Request) []rmqdedup.Answer {
	t.Helper()
	answers, err := rmqdedup.Do(t.Context(), s, op, reqs)
	if err != nil {
		t.Fatalf("%v: %v", op, err)
	}
	return answers
}

func newStoreOnMissingTable(t testing.TB, server string, pool *sql.DB) *mysql.Store {
	t.Helper()
	tb := newTable(t, server, nil)
	s := newStore(t, newDB(t, gormmysql.New(gormmysql.Config{Conn: pool})), tb.name)
	tb.exec(t, "DROP TABLE `"+tb.name+"`")
	return s
}

// session returns the variables of a pool's session that stay what they are by themselves.
func session(t testing.TB, pool *sql.DB) map[string]string {
	t.Helper()
	rows, err := pool.Query("SHOW SESSION VARIABLES")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		switch {
		case name == "timestamp", name == "statement_id", strings.HasPrefix(name, "rand_seed"), name == "pseudo_thread_id":
		case name == "last_insert_id", name == "identity", name == "error_count", name == "warning_count": // of the last statement
		case strings.HasPrefix(name, "gtid"), strings.HasPrefix(name, "wsrep"), strings.HasPrefix(name, "innodb_buffer_pool"): // the server's
		default:
			all[name] = value
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if all["innodb_lock_wait_timeout"] != "7" {
		t.Fatalf("innodb_lock_wait_timeout is %q", all["innodb_lock_wait_timeout"])
	}
	return all
}

// The store's own connections wait a second, whatever the application's do.
func TestOwnConnectionsWaitASecond(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		for how, open := range map[string]opener{
			"gorm": byGorm([]setting{option("innodb_lock_wait_timeout", "100")}),
			"URL":  byURL(),
		} {
			tb := newTable(t, server, open)
			s := tb.Store(t)
			r := request("key")
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
			unlock := tb.lock(t, r.Key)
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // less than the time limit of these stores
			answers, err := s.Acquire(ctx, []rmqdedup.Request{by(r)})
			cancel()
			if err != nil || answers[0].Outcome != rmqdedup.InFlight {
				t.Errorf("%s: %v, error %v; want in flight", how, answers, err)
			}
			unlock()
		}
	})
}

// A claim in a session that does not commit would protect nothing. The store's own sessions commit, whatever the DSN says; in a pool of the
// user's nothing is claimed.
func TestAutocommitOff(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		for how, open := range map[string]opener{
			"gorm": byGorm([]setting{option("autocommit", "0")}),
			"URL":  byURL("autocommit=0"),
		} {
			tb := newTable(t, server, open)
			r := request("key")
			want(t, tb.Store(t), rmqdedup.Claimed, rmqdedup.OpAcquire, r)
			var n int
			if err := tb.admin.QueryRow("SELECT COUNT(*) FROM `" + tb.name + "`").Scan(&n); err != nil || n != 1 {
				t.Errorf("%s: others see %d rows, error %v; want one", how, n, err)
			}
		}
		tb := newTable(t, server, nil)
		s, err := mysql.New(newDB(t, pooled(t, server, "autocommit=0")), mysql.Config{Table: tb.name, Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = s.Check(t.Context())
		failing(t, err, "autocommit=0")
		_, err = s.Acquire(t.Context(), []rmqdedup.Request{request("key")})
		failing(t, err, "autocommit=0")
	})
}

// In some character sets a byte may swallow the backslash that is to escape the next one.
func TestCharacterSetsOfOtherCountries(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		for _, o := range []string{"charset=gbk", "charset=sjis", "collation=gbk_chinese_ci"} {
			tb := newTable(t, server, byURL(o))
			s := tb.Store(t)
			g := newStore(t, newDB(t, gormmysql.Open(dsnOf(server, o))), tb.name)
			own := o
			if strings.HasPrefix(o, "charset") { // the driver refuses it with such a collation
				own += "&interpolateParams=true"
			}
			pool := newStore(t, newDB(t, pooled(t, server, own)), tb.name)
			var all []rmqdedup.Request
			for i := range 64 {
				all = append(all, request(fmt.Sprintf("%c'\\ %d", 0x80+i, i)), request("\xbf'"+fmt.Sprint(i)+"\x81\\"))
			}
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, all...)
			want(t, g, rmqdedup.Applied, rmqdedup.OpRenew, all...)
			want(t, pool, rmqdedup.Applied, rmqdedup.OpComplete, all...)
			want(t, pool, rmqdedup.Done, rmqdedup.OpLookup, all...)
			for _, err := range pool.List(t.Context(), "\xbf'\\") {
				t.Errorf("%s: there is something in a group that nobody is in: error %v", o, err)
			}
			for i, a := range mustDo(t, s, rmqdedup.OpLookup, all...) {
				if a.Outcome != rmqdedup.Done || a.Record.Key.Value != all[i].Key.Value {
					t.Errorf("%s: %q was kept as %v", o, all[i].Key.Value, a.Record)
				}
			}
		}
	})
}
