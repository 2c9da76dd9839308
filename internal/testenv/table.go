package testenv

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// OwnTable returns the mysql:// URL of a store with a table of the test's own, which is dropped at the test's end if it is there. The test
// creates it.
func OwnTable(t testing.TB, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("the URL of a MySQL for tests does not parse")
	}
	table := "test_" + strings.ToLower(rand.Text())
	options := u.Query()
	options.Set("table", table)
	dsn := mysqldriver.NewConfig()
	dsn.Net, dsn.Addr, dsn.DBName, dsn.User = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.User.Username()
	dsn.Passwd, _ = u.User.Password()
	t.Cleanup(func() {
		connector, err := mysqldriver.NewConnector(dsn)
		if err != nil {
			t.Error(err)
			return
		}
		db := sql.OpenDB(connector)
		_, err = db.Exec("DROP TABLE IF EXISTS " + table)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Errorf("dropping the test's table: %v", err)
		}
	})
	u.RawQuery = options.Encode()
	return u.String()
}
