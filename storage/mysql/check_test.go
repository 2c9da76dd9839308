package mysql_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	gormmysql "gorm.io/driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// check opens a store on the table, and returns what Open and Check say.
func (tb *table) check(t testing.TB) error {
	t.Helper()
	s, err := mysql.Open(t.Context(), withOptions(tb.server, "table="+tb.name))
	if err == nil {
		_ = s.Close()
	}
	return err
}

// columns are the table's, each with its type, as schema/v1.sql has them.
func columns(t testing.TB) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z_]+) +(.+) NOT NULL`).FindAllStringSubmatch(mysql.Schema, -1) {
		all[m[1]] = strings.ToLower(strings.TrimSpace(m[2]))
	}
	if len(all) != 16 {
		t.Fatalf("%d columns: %v", len(all), all)
	}
	return all
}

// Each column that is missing or of another type is named, with what it is to be.
func TestWrongColumns(t *testing.T) {
	wrong := map[string]string{
		"binary(32)": "VARBINARY(32)", "binary(16)": "BINARY(20)", "tinyint unsigned": "TINYINT", "bigint": "INT",
		"int unsigned": "INT", "varbinary(1024)": "VARCHAR(1024)",
	}
	onEach(t, func(t *testing.T, server string) {
		for name, kind := range columns(t) {
			tb := newTable(t, server, nil)
			alter := "ALTER TABLE `" + tb.name + "` "
			tb.exec(t, alter+"MODIFY "+name+" "+wrong[kind]+" NOT NULL")
			failing(t, tb.check(t), tb.name, "column "+name+" is ", " and is to be "+kind, "schema/v1.sql")
			switch {
			case name == "digest":
				tb.exec(t, alter+"DROP PRIMARY KEY")
			case name == "status" || name == "expires_at":
				tb.exec(t, alter+"DROP INDEX sweep")
			}
			tb.exec(t, alter+"DROP COLUMN "+name)
			failing(t, tb.check(t), tb.name, "column "+name+" ("+kind+") is missing")
		}
		// All problems at once, and what is no problem.
		tb := newTable(t, server, nil)
		tb.exec(t, "ALTER TABLE `"+tb.name+"` MODIFY tag VARBINARY(2000) NOT NULL, MODIFY topic BLOB NOT NULL, DROP COLUMN message_id, DROP INDEX sweep")
		err := tb.check(t)
		failing(t, err, "column topic is blob", "column message_id (varbinary(1024)) is missing", "index sweep (status,expires_at) is missing")
		if err != nil && strings.Contains(err.Error(), "column tag") {
			t.Errorf("a longer column is no harm: %v", err)
		}
	})
}

func TestForeignColumnsAndIndexes(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		for change, says := range map[string][]string{
			"ADD COLUMN note INT NOT NULL":                                       {"column note", "no default"},
			"ADD COLUMN note INT NOT NULL DEFAULT 3":                             nil,
			"ADD COLUMN note INT":                                                nil,
			"ADD COLUMN note TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)": nil,
			"ADD COLUMN note BIGINT GENERATED ALWAYS AS (grace + 1) VIRTUAL":     nil,
			"ADD COLUMN note BIGINT GENERATED ALWAYS AS (grace + 1) STORED":      nil,
			"ADD INDEX mine (topic(10), tag(10))":                                nil,
			"ADD UNIQUE INDEX mine (key_value(100))":                             {"unique index mine (key_value)", "two keys for one"},
			"DROP INDEX sweep":                                                   {"index sweep (status,expires_at) is missing"},
			"DROP INDEX sweep, ADD INDEX sweep (expires_at, status)":             {"index sweep (status,expires_at) is missing"},
			"DROP INDEX sweep, ADD INDEX sweep (status, expires_at, digest)":     {"index sweep (status,expires_at) is missing"},
			"DROP PRIMARY KEY":                                                   {"primary key is to be (digest) alone"},
			"DROP PRIMARY KEY, ADD PRIMARY KEY (digest, status)":                 {"primary key is to be (digest) alone"},
			"COMMENT 'rmqdedup state table, format 2'":                           {"format 2", "this release knows format 1", "newer release"},
			"COMMENT 'rmqdedup state table, format 1.5'":                         {"format 1.5"},
			"COMMENT 'of the orders'":                                            nil,
			"COMMENT ''":                                                         nil,
		} {
			tb := newTable(t, server, byURL())
			tb.exec(t, "ALTER TABLE `"+tb.name+"` "+change)
			err := tb.check(t)
			if len(says) > 0 {
				failing(t, err, append(says, tb.name)...)
				continue
			}
			if err != nil {
				t.Errorf("%s: %v; want no error", change, err)
				continue
			}
			s := tb.Store(t)
			r := request("key")
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
			want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, r)
		}
		if !isMariaDB(t, server) {
			// An index on an expression is on no column.
			tb := newTable(t, server, nil)
			tb.exec(t, "ALTER TABLE `"+tb.name+"` ADD INDEX mine ((grace + 1))")
			if err := tb.check(t); err != nil {
				t.Errorf("an index on an expression: %v", err)
			}
			// A generated column takes no value, and MySQL knows some that are never NULL.
			tb.exec(t, "ALTER TABLE `"+tb.name+"` ADD COLUMN note BIGINT GENERATED ALWAYS AS (grace + 1) STORED NOT NULL")
			if err := tb.check(t); err != nil {
				t.Errorf("a generated column: %v", err)
			}
			tb.exec(t, "ALTER TABLE `"+tb.name+"` ADD UNIQUE INDEX ours ((grace + 1))")
			failing(t, tb.check(t), "unique index ours")
		}
	})
}

// Each right that is missing is found out at the start, not by the first message.
func TestRights(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		all := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
		for _, missing := range append(all, "") {
			tb := newTable(t, server, nil)
			name := "`" + databaseOf(server) + "`.`" + tb.name + "`"
			var rights []string
			for _, r := range all {
				if r != missing {
					rights = append(rights, r)
				}
			}
			u := tb.newUser(t, strings.Join(rights, ", ")+" ON "+name)
			s, err := mysql.Open(t.Context(), withOptions(u.url(server), "table="+tb.name))
			if missing != "" {
				failing(t, err, missing+" command denied", "GRANT SELECT, INSERT, UPDATE, DELETE", tb.name)
				continue
			}
			if err != nil {
				t.Error(err)
				continue
			}
			checkRights(t, tb, s)
			_ = s.Close()
		}
		// All rights are wanted at once, not one after the other.
		tb := newTable(t, server, nil)
		u := tb.newUser(t, "SELECT ON `"+databaseOf(server)+"`.`"+tb.name+"`")
		_, err := mysql.Open(t.Context(), withOptions(u.url(server), "table="+tb.name))
		failing(t, err, "INSERT command denied", "UPDATE command denied", "DELETE command denied", "GRANT SELECT, INSERT, UPDATE, DELETE", tb.name)
		// A table that one may not see is as one that is not there.
		other := newTable(t, server, nil)
		_, err = mysql.Open(t.Context(), withOptions(u.url(server), "table="+other.name))
		failing(t, err, "no right", "GRANT SELECT, INSERT, UPDATE, DELETE", other.name)
	})
}

// checkRights says whether the rights that the package documentation names are enough for whatever a store does.
func checkRights(t *testing.T, tb *table, s *mysql.Store) {
	t.Helper()
	r := request("key")
	for _, op := range []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpRenew, rmqdedup.OpComplete, rmqdedup.OpAbandon, rmqdedup.OpRelease, rmqdedup.OpLookup, rmqdedup.OpForget} {
		for _, a := range mustDo(t, s, op, r, request("other")) {
			if a.Err != nil {
				t.Errorf("%v: %v", op, a.Err)
			}
		}
	}
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
	tb.Age(t, r.Key, 2*r.Lease)
	records, err := s.Expired(t.Context(), 10, true)
	if err != nil || len(records) == 0 {
		t.Errorf("expired: %v, error %v", records, err)
	}
	if n, err := s.Clear(t.Context(), records); err != nil || n != len(records) {
		t.Errorf("cleared %d, error %v", n, err)
	}
	if _, err := s.Purge(t.Context(), 10); err != nil {
		t.Error(err)
	}
	for _, err := range s.List(t.Context(), "group") {
		if err != nil {
			t.Error(err)
		}
	}
}

// A session that may not write is found out, as a server is that may not.
func TestReadOnlySession(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, nil)
		name := "transaction_read_only"
		if isMariaDB(t, server) {
			name = "tx_read_only" // the other name came with 11.1
		}
		_, err := mysql.Open(t.Context(), withOptions(server, "table="+tb.name, name+"=1"))
		failing(t, err, "read-only", "connect to the primary")
	})
}

// The same of a server that is read-only while the store is open, and then is not any more; and what a server that does not flush at each commit
// is warned about, once at each check.
func TestReadOnlyAndForgetfulServer(t *testing.T) {
	t.Parallel()
	dsn := startServer(t, "--innodb-flush-log-at-trx-commit=2")
	admin := openDSN(t, dsn)
	exec := func(query string) {
		t.Helper()
		if _, err := admin.Exec(query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	exec("CREATE USER app@localhost IDENTIFIED BY 's3cret'")
	exec("GRANT ALL ON test.* TO app@localhost")
	app := strings.Replace(dsn, "root@", "app:s3cret@", 1)

	s := open(t, app+"?migrate=true")
	var log strings.Builder
	g, err := mysql.New(newDB(t, gormmysql.Open(app)), mysql.Config{Logger: textLogger(&log)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for how, s := range map[string]*mysql.Store{"Open": s, "New": g} {
		if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "innodb_flush_log_at_trx_commit is 2") {
			t.Errorf("%s: warnings %q; want one of innodb_flush_log_at_trx_commit", how, w)
		}
	}
	if n := strings.Count(log.String(), "innodb_flush_log_at_trx_commit is 2"); n != 1 {
		t.Errorf("New logs %q; want one warning", log.String())
	}

	if n := strings.Count(defaultLog.String(), s.String()); n != 1 {
		t.Errorf("Open tells slog.Default() %d times; want once", n)
	}

	r := request("key")
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
	exec("SET GLOBAL read_only = 1")
	_, err = s.Check(t.Context())
	failing(t, err, "read-only", "connect to the primary")
	if w := s.Warnings(); len(w) != 1 {
		t.Errorf("warnings %q; want those of the last check that came to its end", w)
	}
	_, err = s.Acquire(t.Context(), []rmqdedup.Request{by(r)})
	failing(t, err, "read-only", "connect to the primary")
	want(t, s, rmqdedup.InFlight, rmqdedup.OpLookup, r) // which a replica can tell
	// Whether the user may write there, which an administrator may, makes no difference: a replica is not to be written.
	for _, url := range []string{app, dsn} {
		_, err = mysql.Open(t.Context(), url)
		failing(t, err, "read-only", "connect to the primary")
	}

	exec("SET GLOBAL read_only = 0")
	exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, by(r))
	if w, err := s.Check(t.Context()); err != nil || w != nil || s.Warnings() != nil {
		t.Errorf("set right: %q and %q, error %v", w, s.Warnings(), err)
	}
	for _, value := range []int{0, 2} { // it may be set wrong while the store is used
		exec(fmt.Sprint("SET GLOBAL innodb_flush_log_at_trx_commit = ", value))
		w, err := s.Check(t.Context())
		if err != nil || len(w) != 1 || len(s.Warnings()) != 1 || !strings.Contains(w[0], fmt.Sprint("is ", value)) {
			t.Errorf("set to %d: %q, error %v", value, w, err)
		}
	}
	s.Warnings()[0] = "" // a copy
	if s.Warnings()[0] == "" {
		t.Error("Warnings gives the store's own away")
	}

	exec("SET GLOBAL max_connections = 10")
	var held []func()
	for range 11 {
		c, err := openDSN(t, app).Conn(t.Context())
		if err != nil {
			break
		}
		held = append(held, func() { _ = c.Close() })
	}
	_, err = mysql.Open(t.Context(), app)
	failing(t, err, "max_conns", "max_connections")
	for _, end := range held {
		end()
	}
}

// What happens to a table while it is used is told by the call that meets it.
func TestTableGoesAway(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		s := tb.Store(t).(*mysql.Store)
		r := request("key")
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
		tb.exec(t, "ALTER TABLE `"+tb.name+"` DROP COLUMN grace")
		_, err := s.Acquire(t.Context(), []rmqdedup.Request{request("another")})
		failing(t, err, "grace", "not as schema/v1.sql", "Store.Check")
		tb.exec(t, "DROP TABLE `"+tb.name+"`")
		_, err = s.Acquire(t.Context(), []rmqdedup.Request{r})
		failing(t, err, tb.name, "migrate=true", "schema/v1.sql")
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
	})
}
