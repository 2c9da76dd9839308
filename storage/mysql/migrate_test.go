package mysql_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	gormmysql "gorm.io/driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// A fleet that starts at once creates one table, and each of its processes can use it from then on.
func TestMigrateAtOnce(t *testing.T) {
	const processes = 30
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, nil)
		tb.exec(t, "DROP TABLE `"+tb.name+"`")
		url := withOptions(server, "table="+tb.name, "call_timeout=30s", "max_conns=2", "migrate=true")
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range processes {
			all.Go(func() {
				<-start
				if i%2 == 0 { // as a command of its own does it
					u, err := mysql.ParseURL(url)
					if err == nil {
						err = u.Migrate(t.Context())
					}
					if err != nil {
						t.Errorf("process %d: %v", i, err)
					}
				}
				s, err := mysql.Open(t.Context(), url)
				if err != nil {
					t.Errorf("process %d: %v", i, err)
					return
				}
				defer s.Close()
				want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, request(rmqdedup.NewOwner().String()))
			})
		}
		close(start)
		all.Wait()
		var rows int
		if err := tb.admin.QueryRow("SELECT COUNT(*) FROM `" + tb.name + "`").Scan(&rows); err != nil || rows != processes {
			t.Errorf("%d rows, error %v; want %d", rows, err, processes)
		}
	})
}

// Where the table is there, a user without the right to CREATE starts as well, with migrate=true in the URL. Where it is not, the error says
// that the right is missing.
func TestMigrateTwice(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, nil)
		u := tb.newUser(t, "SELECT, INSERT, UPDATE, DELETE ON `"+databaseOf(server)+"`.`"+tb.name+"`")
		s := open(t, withOptions(u.url(server), "table="+tb.name, "migrate=true"))
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, request("key"))
		if err := s.Migrate(t.Context()); err != nil {
			t.Errorf("a second time: %v", err)
		}
		want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, request("key")) // it has emptied nothing

		tb.exec(t, "DROP TABLE `"+tb.name+"`")
		failing(t, s.Migrate(t.Context()), "CREATE", "GRANT")
		_, err := mysql.Open(t.Context(), withOptions(u.url(server), "table="+tb.name, "migrate=true"))
		failing(t, err, "CREATE", "GRANT")
	})
}

// What Migrate makes is what the file makes that a DBA runs as it stands, but for the name.
func TestSchemaAsADBARunsIt(t *testing.T) {
	file, err := os.ReadFile("schema/v1.sql")
	if err != nil {
		t.Fatal(err)
	}
	if string(file) != mysql.Schema {
		t.Error("Schema is not schema/v1.sql")
	}
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, nil)
		// In a database of its own, since the table has the name that everybody's has.
		database := strings.ToLower(tb.name)
		tb.exec(t, "CREATE DATABASE "+database)
		t.Cleanup(func() { tb.exec(t, "DROP DATABASE "+database) })
		own := strings.TrimSuffix(server, databaseOf(server)) + database
		dba := newAdmin(t, own)
		for range 2 { // running it again does nothing
			if _, err := dba.Exec(string(file)); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, own)
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, request("key"))

		var name, byHand, byMigrate string
		if err := dba.QueryRow("SHOW CREATE TABLE rmqdedup_state").Scan(&name, &byHand); err != nil {
			t.Fatal(err)
		}
		if err := tb.admin.QueryRow("SHOW CREATE TABLE `"+tb.name+"`").Scan(&name, &byMigrate); err != nil {
			t.Fatal(err)
		}
		if byHand != strings.Replace(byMigrate, tb.name, "rmqdedup_state", 1) {
			t.Errorf("by hand:\n%s\nby Migrate:\n%s", byHand, byMigrate)
		}
	})
}

// Stores of two tables know nothing of each other.
func TestTwoTables(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		r := request("key")
		for range 2 {
			tb := newTable(t, server, byURL())
			want(t, tb.Store(t), rmqdedup.Claimed, rmqdedup.OpAcquire, r)
		}
		// A name that is a word of SQL, and one that is as long as may be.
		for _, name := range []string{"select", "1" + strings.Repeat("x", 63)} {
			tb := newTable(t, server, nil)
			database := tb.name
			tb.exec(t, "CREATE DATABASE "+database)
			t.Cleanup(func() { tb.exec(t, "DROP DATABASE "+database) })
			own := strings.TrimSuffix(server, databaseOf(server)) + database
			s := open(t, withOptions(own, "migrate=true", "table="+name))
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r, request("another"))
			want(t, s, rmqdedup.Applied, rmqdedup.OpRelease, r)
			want(t, newStore(t, newDB(t, gormmysql.Open(dsnOf(own))), name), rmqdedup.Claimed, rmqdedup.OpAcquire, by(r))
		}
	})
}
