package storage_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis would tell of every server that is not there
	goleak.VerifyTestMain(m,
		// rocketmq-client-go, which rmqdedup imports for its types, has a global cache whose janitor cannot be stopped.
		goleak.IgnoreTopFunction("github.com/patrickmn/go-cache.(*janitor).Run"),
	)
}

func TestOpen(t *testing.T) {
	urls := map[string]func(t *testing.T) string{
		"memory":   func(*testing.T) string { return "memory://" },
		"bounded":  func(*testing.T) string { return "memory://?max_keys=3" },
		"Single":   func(t *testing.T) string { return testenv.Require(t, "RMQDEDUP_REDIS") },
		"Cluster":  func(t *testing.T) string { return testenv.Require(t, "RMQDEDUP_REDIS_CLUSTER") },
		"Sentinel": func(t *testing.T) string { return testenv.Require(t, "RMQDEDUP_REDIS_SENTINEL") },
		"MySQL":    func(t *testing.T) string { return newTable(t, testenv.Require(t, "RMQDEDUP_MYSQL")) },
		"MariaDB":  func(t *testing.T) string { return asDSN(newTable(t, testenv.Require(t, "RMQDEDUP_MARIADB"))) },
	}
	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			s, err := storage.Open(t.Context(), url(t))
			if err != nil {
				t.Fatal(err)
			}
			owner := rmqdedup.NewOwner() // its token makes the key one that no other test has
			req := []rmqdedup.Request{{Key: rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeGroup, "test", "", "", owner.String()), Owner: owner, Lease: 1e9}}
			for _, step := range []struct {
				op   rmqdedup.Op
				want rmqdedup.Outcome
			}{{rmqdedup.OpAcquire, rmqdedup.Claimed}, {rmqdedup.OpRelease, rmqdedup.Applied}, {rmqdedup.OpLookup, rmqdedup.Absent}} {
				if answers, err := rmqdedup.Do(t.Context(), s, step.op, req); err != nil || answers[0].Outcome != step.want {
					t.Errorf("%v: %v, error %v; want %v", step.op, answers, err, step.want)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := s.Lookup(t.Context(), req); !errors.Is(err, rmqdedup.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// newTable returns a server's URL with a table that is not there yet, and that is removed when the test ends.
func newTable(t *testing.T, server string) string {
	t.Helper()
	table := "test_" + rmqdedup.NewOwner().String()
	t.Cleanup(func() {
		db, err := sql.Open("mysql", asDSN(server))
		if err == nil {
			defer db.Close()
			_, err = db.Exec("DROP TABLE IF EXISTS " + table)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return server + "?migrate=true&table=" + table
}

// asDSN says the same as a URL, as a DSN.
func asDSN(url string) string {
	user, rest, _ := strings.Cut(strings.TrimPrefix(url, "mysql://"), "@")
	address, database, _ := strings.Cut(rest, "/")
	return user + "@tcp(" + address + ")/" + database
}

// Migrate makes what Open needs, once, and has nothing to do for a store that needs nothing.
func TestMigrate(t *testing.T) {
	for _, variable := range []string{"RMQDEDUP_MYSQL", "RMQDEDUP_MARIADB"} {
		t.Run(variable, func(t *testing.T) {
			url := strings.Replace(newTable(t, testenv.Require(t, variable)), "migrate=true", "migrate=false", 1)
			if s, err := storage.Open(t.Context(), url); err == nil {
				_ = s.Close()
				t.Error("opened without a table")
			}
			for _, u := range []string{url, asDSN(url)} {
				if err := storage.Migrate(t.Context(), u); err != nil {
					t.Errorf("%s: %v", u, err)
				}
			}
			s, err := storage.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
		})
	}
	// Neither has anything to create, so nobody is asked.
	for _, url := range []string{"memory://", "redis://127.0.0.1:1"} {
		if err := storage.Migrate(t.Context(), url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for url, says := range map[string]string{
		"mysql://user:s3cret@127.0.0.1:1/orders": "127.0.0.1:1",
		"mysql://user:s3cret@localhost":          "there is no database",
		"user:s3cret@tcp(127.0.0.1:1)/orders":    "127.0.0.1:1",
		"redis://user:s3cret@localhost?db=x":     "option db",
		"mysq://user:s3cret@localhost/orders":    "did you mean mysql://",
		"":                                       "no scheme",
	} {
		if err := storage.Migrate(t.Context(), url); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %v; want one that says %q, and no password", url, err, says)
		}
	}
}

func TestMaxKeys(t *testing.T) {
	s, err := storage.Open(t.Context(), "memory://?max_keys=1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var reqs []rmqdedup.Request
	for _, value := range []string{"a", "b"} {
		reqs = append(reqs, rmqdedup.Request{Key: rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeGroup, "g", "", "", value), Owner: rmqdedup.NewOwner(), Lease: 1e12})
	}
	if answers, err := s.Acquire(t.Context(), reqs); err != nil || answers[0].Err != nil || !errors.Is(answers[1].Err, rmqdedup.ErrFull) {
		t.Errorf("two keys in a store for one: %v, error %v", answers, err)
	}
}

// Whatever is wrong with a URL, the error says what, and shows no password.
func TestBadURLs(t *testing.T) {
	const secret = "s3cret"
	for _, c := range []struct{ url, says string }{
		// The scheme.
		{"", "no scheme"},
		{"user:s3cret@localhost:6379", "no scheme"},
		{"redis:user:s3cret@localhost", "no scheme"},
		{"redis:/user:s3cret@localhost", "no scheme"},
		{"//user:s3cret@localhost", "no scheme"},
		{"://user:s3cret@localhost", "no scheme"},
		{"1redis://user:s3cret@localhost", "no scheme"},
		{" redis://user:s3cret@localhost", "no scheme"},
		{"user:s3cret@redis://localhost", "no scheme"},
		{"postgres://user:s3cret@localhost", "there is no store for postgres://; there are memory://, redis://"},
		{"reddis://user:s3cret@localhost", "did you mean redis://"},
		{"redis+clutser://user:s3cret@localhost", "did you mean redis+cluster://"},
		{"rediss+sentinal://user:s3cret@localhost", "did you mean rediss+sentinel://"},
		{"mem://", "memory://"},
		// The host.
		{"redis://", "no host"},
		{"redis://:s3cret@", "no host"},
		{"redis+cluster://user:s3cret@?addr=a:1", "no host"},
		{"redis://user:s3cret", "host:port"},
		{"redis://user:s3cret@local host", "blank"},
		{"redis://user:s3cret@localhost\n", "blank or a control"},
		{"redis://user:s3cret@localhost:63790000", "65535"},
		{"redis://user:s3cret@localhost:6379:6379", "host:port"},
		{"redis://user:s3cret@localhost:0", "65535"},
		{"redis://user:s3cret@localhost:s3cret", "65535"},
		{"redis://user:s3cret@::1", "host:port"},
		{"redis://user:s3cret@[::1", "[IPv6]:port"},
		{"redis://user:s3cret@[s3cret]", "[IPv6]:port"},
		{"redis://user:s3cret@local%68ost", "host:port"},
		{"redis+cluster://user:s3cret@a,,b", "host:port"},
		{"redis+cluster://user:s3cret@a,b:", "host:port"},
		// The password.
		{"redis://user:s3cret/2@localhost", "percent-encoded"},
		{"redis://user:s3cret?2@localhost", "percent-encoded"},
		{"redis://user:s3cret#2@localhost", "percent-encoded"},
		{"redis://user:1234#s3cret@localhost", "percent-encoded"},
		{"redis://user:1234/s3cret@localhost", "percent-encoded"},
		{"redis://user:%s3cret@localhost", "%25"},
		{"redis://user:s3cret%@localhost", "%25"},
		{"redis://us%er:s3cret@localhost", "%25"},
		{"redis://user:s3cret 2@localhost", "blank"},
		// The rest.
		{"redis://user:s3cret@localhost/s3cret", "number of a database"},
		{"redis://user:s3cret@localhost/%zz", "%25"},
		{"redis://user:s3cret@localhost#s3cret", "#"},
		{"redis://user:s3cret@localhost?a;b", "options"},
		{"redis://user:s3cret@localhost?a=%zz", "options"},
		{"redis://user:s3cret@localhost?poolsize=1", "pool_size"},
		{"redis://user:s3cret@localhost?password=s3cret", `"password"`},
		{"redis://user:s3cret@localhost?pool_size=s3cret", "pool_size"},
		{"redis://user:s3cret@localhost?prefix=s3cret*", "prefix"},
		{"redis://user:s3cret@localhost?timeout=s3cret", "timeout"},
		{"redis+cluster://user:s3cret@localhost?addr=s3cret", "redis+cluster://localhost:6379"},
		{"redis+cluster://user:s3cret@localhost?addr=s3cret:x", "addr"},
		{"redis+sentinel://user:s3cret@localhost?password=s3cret", "master_name"},
		{"redis+sentinel://user:s3cret@localhost?passwort=s3cret&master_name=m", "did you mean password"},
		{"mysql://user:s3cret@localhost", "there is no database"},
		{"mysql://user:s3cret@/orders", "there is no host"},
		{"mysql://user:s3cret@localhost:x/orders", "65535"},
		{"mysql://user:s3/cret@localhost/orders", "percent-encoded"},
		{"mysql://user:s3cret@localhost/orders?table=s3cret!", "option table"},
		{"mysql://user:s3cret@localhost/orders?max_conns=s3cret", "option max_conns"},
		{"mysqld://user:s3cret@localhost/orders", "did you mean mysql://"},
		{"user:s3cret@tcp(localhost)/", "there is no database"},
		{"user:s3cret@tcp(localhost)/orders?tls=nowhere", "nowhere"},
		{"user:s3cret@tcp(localhost)/orders?migrate=s3cret", "option migrate"},
		{"user:s3cret/orders", "no scheme"},
		{"memory://user:s3cret@localhost", "no host"},
		{"memory://:s3cret@", "no host"},
		{"memory:///s3cret", "no host"},
		{"memory://?max_keys=s3cret", "max_keys"},
		{"memory://?max_keys=0", "max_keys"},
		{"memory://?maxkeys=1", "did you mean max_keys"},
		// In order, but nobody is there. What stands where a host does is shown: it has to be.
		{"redis://user:s3cret@127.0.0.1:1", "127.0.0.1:1"},
		{"redis+cluster://user:s3cret@127.0.0.1:1", "127.0.0.1:1"},
		{"redis+sentinel://user:s3cret@127.0.0.1:1?master_name=m&username=s3cret&password=s3cret", "127.0.0.1:1"},
		{"rediss://user:s3cret@127.0.0.1:1", "127.0.0.1:1"},
		{"mysql://user:s3cret@127.0.0.1:1/orders", "127.0.0.1:1"},
		{"user:s3cret@tcp(127.0.0.1:1)/orders", "127.0.0.1:1"},
	} {
		t.Run(strings.ReplaceAll(c.url, "/", "|"), func(t *testing.T) {
			if strings.Contains(c.url, "addr=s3cret") && !strings.Contains(c.url, ":x") {
				t.Skip("a host by that name is what was asked for")
			}
			s, err := storage.Open(t.Context(), c.url)
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			for _, text := range texts(err) {
				if strings.Contains(text, secret) {
					t.Errorf("it shows the password: %s", text)
				}
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q; want one that says %q", err, c.says)
			}
			if s != nil {
				t.Errorf("with an error comes a store: %v", s)
			}
		})
	}
}

// texts returns what an error and all that it wraps say.
func texts(err error) []string {
	all := []string{err.Error(), fmt.Sprintf("%+v", err)}
	switch e := err.(type) { //nolint:errorlint // this is the walk down that errors.As makes, to see each
	case interface{ Unwrap() error }:
		if next := e.Unwrap(); next != nil {
			all = append(all, texts(next)...)
		}
	case interface{ Unwrap() []error }:
		for _, next := range e.Unwrap() {
			all = append(all, texts(next)...)
		}
	}
	return all
}

func TestOpenHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := storage.Open(ctx, "redis://127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want one that wraps Canceled", err)
	}
}

func ExampleOpen() {
	ctx := context.Background()
	store, err := storage.Open(ctx, "memory://?max_keys=1000") // a flag's value
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()

	key := rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", "order-17")
	request := rmqdedup.Request{Key: key, Owner: rmqdedup.NewOwner(), Lease: 60e9}
	answers, err := store.Acquire(ctx, []rmqdedup.Request{request})
	fmt.Println(answers[0].Outcome, err)

	_, err = storage.Open(ctx, "redsi://localhost")
	fmt.Println(err)
	// Output:
	// claimed <nil>
	// storage: there is no store for redsi://; did you mean redis://? There are memory://, redis://, rediss://, redis+cluster://, rediss+cluster://, redis+sentinel://, rediss+sentinel://, mysql://
}
