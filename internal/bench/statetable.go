package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/storage"
)

// servers are those that stores are opened on, by the names they have in the table, and the environment's variable that has the URL.
var servers = map[string]string{"redis": "RMQDEDUP_REDIS", "mysql": "RMQDEDUP_MYSQL", "mariadb": "RMQDEDUP_MARIADB"}

// A stateTable is one of a cell's own: keys of one prefix in Redis, a table in MySQL and MariaDB.
type stateTable struct {
	server *url.URL
	name   string
}

// newStateTable creates one, which is removed with the stage.
func newStateTable(ctx context.Context, s *stage, server string) (*stateTable, error) {
	raw := os.Getenv(servers[server])
	if raw == "" {
		return nil, fmt.Errorf(`%s names no server; start it: make up && eval "$(make -s env)"`, servers[server])
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s is no URL", servers[server]) // the error would show a password
	}
	t := &stateTable{server: u, name: "bench_" + strings.ToLower(rand.Text())}
	if t.isSQL() {
		s.later(t.drop)
		return t, storage.Migrate(ctx, t.url())
	}
	s.later(t.unlink)
	return t, nil
}

func (t *stateTable) isSQL() bool { return t.server.Scheme == "mysql" }

// url is that of a store on the table, with options such as "max_conns=20".
func (t *stateTable) url(options ...string) string {
	u := *t.server
	q := u.Query()
	if t.isSQL() {
		q.Set("table", t.name)
	} else {
		q.Set("prefix", t.name)
	}
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// through is the same table, reached by another address.
func (t *stateTable) through(address string) *stateTable {
	u := *t.server
	u.Host = address
	return &stateTable{server: &u, name: t.name}
}

// open opens a store on the table with a connection for each caller.
func (t *stateTable) open(ctx context.Context, s *stage, callers int, options ...string) (storage.Store, error) {
	if t.isSQL() {
		options = append(options, fmt.Sprintf("max_conns=%d", callers))
	} else {
		options = append(options, fmt.Sprintf("pool_size=%d", callers))
	}
	store, err := storage.Open(ctx, t.url(options...))
	if err != nil {
		return nil, err
	}
	s.close(store)
	return store, nil
}

// client is one of go-redis.
func (t *stateTable) client(callers int) (*goredis.Client, error) {
	o, err := goredis.ParseURL(t.server.String())
	if err != nil {
		return nil, errors.New("go-redis cannot read the URL of the Redis")
	}
	o.PoolSize = callers
	return goredis.NewClient(o), nil
}

// db is a pool of so many connections.
func (t *stateTable) db(connections int) (*sql.DB, error) {
	c := mysqldriver.NewConfig()
	c.Net, c.Addr, c.DBName, c.User = "tcp", t.server.Host, strings.TrimPrefix(t.server.Path, "/"), t.server.User.Username()
	c.Passwd, _ = t.server.User.Password()
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

func (t *stateTable) drop(ctx context.Context) error {
	db, err := t.db(1)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "DROP TABLE IF EXISTS `"+t.name+"`")
	return errors.Join(err, db.Close())
}

// unlink removes all keys that begin with the name.
func (t *stateTable) unlink(ctx context.Context) error {
	client, err := t.client(1)
	if err != nil {
		return err
	}
	err = t.eachPage(ctx, client, "", func(keys []string) error { return client.Unlink(ctx, keys...).Err() })
	return errors.Join(err, client.Close())
}

// eachPage calls f with the keys whose names begin with the table's and then the rest given, some at a time.
func (t *stateTable) eachPage(ctx context.Context, client *goredis.Client, rest string, f func(keys []string) error) error {
	const page = 1000
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(ctx, cursor, t.name+rest+"*", page).Result()
		if err == nil && len(keys) > 0 {
			err = f(keys)
		}
		if err != nil || next == 0 {
			return err
		}
		cursor = next
	}
}
