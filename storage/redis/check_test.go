package redis_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/redis"
)

func TestEvictionPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"noeviction", "allkeys-lru", "volatile-ttl"} {
		srv := startServer(t, "--maxmemory-policy", policy)
		var log bytes.Buffer
		s, err := redis.New(srv.client(t), redis.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		warned := len(s.Warnings()) == 1 && strings.Contains(s.Warnings()[0], policy) && strings.Contains(log.String(), policy)
		if policy == "noeviction" {
			if s.Warnings() != nil || log.Len() > 0 {
				t.Errorf("%s: warnings %q, log %s; want neither", policy, s.Warnings(), log.String())
			}
		} else if !warned {
			t.Errorf("%s: warnings %q, log %s; want one that names it", policy, s.Warnings(), log.String())
		}

		// It may be set right, or wrong, while the store is used.
		srv.do(t, "config", "set", "maxmemory-policy", "allkeys-random")
		if warnings, err := s.Check(t.Context()); err != nil || len(warnings) != 1 || len(s.Warnings()) != 1 {
			t.Errorf("checked again: %q, error %v", warnings, err)
		}
	}
}

func TestPolicyUnknown(t *testing.T) {
	t.Parallel()
	srv := startServer(t, "--maxmemory-policy", "allkeys-lru")
	srv.do(t, "acl", "setuser", "app", "on", ">secret", "~*", "+@all", "-info", "-config")
	s := newStore(t, srv.client(t, func(o *goredis.Options) { o.Username, o.Password = "app", "secret" }))
	if warnings, err := s.Check(t.Context()); err != nil || warnings != nil {
		t.Errorf("a server that does not tell its policy: %q, error %v; want neither", warnings, err)
	}
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, request("key"))
}

// The rights that the package documentation names are enough.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	srv.do(t, append([]any{"acl", "setuser", "app", "on", ">secret", "~" + prefix + ":*", "-@all"}, redis.Rights()...)...)
	s := newStore(t, srv.client(t, func(o *goredis.Options) { o.Username, o.Password = "app", "secret" }))
	reqs := requests(3)
	for range 2 {
		for _, op := range allOps {
			for i, a := range do(t, s, op, reqs...) {
				if a.Err != nil {
					t.Errorf("%v of request %d: %v", op, i, a.Err)
				}
			}
		}
	}
	for _, err := range s.List(t.Context(), "group") {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUnfitServers(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	host, port, _ := strings.Cut(srv.addr, ":")
	replica := startServer(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	masters, _ := startCluster(t)
	locked := startServer(t, "--requirepass", "s3cret")
	for _, c := range []struct{ what, url, says string }{
		{"a replica", replica.url(), "replica"},
		{"a node of a Cluster", masters[1].url(), "redis+cluster://"},
		{"no node of a Cluster", "redis+cluster://" + srv.addr, "use redis://"},
		{"no Sentinel", "redis+sentinel://" + srv.addr + "?master_name=mymaster", "Sentinels"},
		{"no TLS", "rediss://" + srv.addr + "?timeout=1s", "TLS"},
		{"no password", locked.url(), "user and password"},
		{"a wrong password", "redis://:s3cret1@" + locked.addr, "user and password"},
		{"nobody", "redis://127.0.0.1:1", "127.0.0.1:1"},
		{"nobody, as a Cluster", "redis+cluster://127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1"},
		{"nobody, as Sentinels", "redis+sentinel://127.0.0.1:1,127.0.0.1:2?master_name=mymaster", "127.0.0.1:1"},
		{"no such host", "redis://no-such-host.invalid", "host's name"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			s, err := redis.Open(t.Context(), c.url)
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			t.Log(err)
			if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error %q; want one that says %q, and no password", err, c.says)
			}
			if took := time.Since(begin); took > 3*redis.DefaultTimeout {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := func(o goredis.Options) *goredis.Client {
		c := goredis.NewClient(&o)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, HeartbeatFrequency: time.Hour})
	t.Cleanup(func() { _ = ring.Close() })
	good := client(goredis.Options{Addr: "127.0.0.1:1"})
	for what, c := range map[string]struct {
		client goredis.UniversalClient
		config redis.Config
		says   []string
	}{
		"no client":            {nil, redis.Config{}, []string{"client is nil"}},
		"a client that is nil": {(*goredis.Client)(nil), redis.Config{}, []string{"client is nil"}},
		"a ring":               {ring, redis.Config{}, []string{"Ring", "Cluster"}},
		"an endless client":    {client(goredis.Options{Addr: "127.0.0.1:1", ReadTimeout: -1}), redis.Config{}, []string{"ContextTimeoutEnabled", "ReadTimeout"}},
		"a prefix with braces": {good, redis.Config{Prefix: "a{b}"}, []string{"Prefix", "'{'"}},
		"a long prefix":        {good, redis.Config{Prefix: strings.Repeat("a", 129)}, []string{"Prefix", "129", "128"}},
		"several problems":     {nil, redis.Config{Prefix: "a*", Timeout: -1}, []string{"Prefix", "'*'", "Timeout", "-1ns", "client is nil"}},
	} {
		s, err := redis.New(c.client, c.config)
		if err == nil || s != nil {
			t.Errorf("%s: no error", what)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: error %q; want it to say %q", what, err, s)
			}
		}
	}
}

// A server that is not there is none of New's business: what becomes of messages is the wrapper's policy.
func TestNewWithoutServer(t *testing.T) {
	t.Parallel()
	c := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = c.Close() })
	var log bytes.Buffer
	s, err := redis.New(c, redis.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "127.0.0.1:1") || !strings.Contains(log.String(), "WARN") {
		t.Errorf("log %q; want a warning that names the server", log.String())
	}
	if _, err := s.Acquire(t.Context(), requests(2)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
}

func TestClosing(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	c := srv.client(t)
	s := newStore(t, c)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("closing the store has closed the user's client: %v", err)
	}
	if _, err := s.Check(t.Context()); !errors.Is(err, rmqdedup.ErrClosed) {
		t.Errorf("check: %v", err)
	}

	s = newStore(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2} {
		if _, err := s.Acquire(t.Context(), requests(n)); !errors.Is(err, rmqdedup.ErrClosed) {
			t.Errorf("the client was closed: %v", err)
		}
	}
}

func TestProtocolsAndHooks(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	for _, protocol := range []int{2, 3} {
		c := srv.client(t, func(o *goredis.Options) { o.Protocol = protocol })
		c.AddHook(new(hook))
		s := newStore(t, c)
		reqs := requests(5)
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)
		want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, strangers(reqs...)...)
		want(t, s, rmqdedup.Applied, rmqdedup.OpAbandon, reqs...)
		want(t, s, rmqdedup.TakenOver, rmqdedup.OpAcquire, reqs...)
		want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, reqs...)
		want(t, s, rmqdedup.Done, rmqdedup.OpLookup, reqs...)
		want(t, s, rmqdedup.Applied, rmqdedup.OpForget, reqs...)
	}
}

// An auto-pipelining client, and any other that this package does not know, is used as one that ignores contexts.
func TestAutoPipeliner(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	c := srv.client(t)
	auto, err := c.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	async, err := c.AsyncAutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []goredis.UniversalClient{auto, async} {
		s := newStore(t, c)
		for _, n := range []int{1, 20} {
			reqs := strangers(requests(n)...)
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)
			want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, reqs...)
			want(t, s, rmqdedup.Applied, rmqdedup.OpForget, reqs...)
		}
	}
}

func TestListOfOneGroup(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	c := srv.client(t)
	groups := []string{"group", "group2", "*", "gr?up", "ns%group", "a:b", "{tag}", "", strings.Repeat("long", 100), strings.Repeat("long", 100) + "er", "\x00\xff"}
	keys := make(map[string]rmqdedup.Key)
	for _, p := range []string{prefix, prefix + ":group"} {
		s := newStore(t, c, func(c *redis.Config) { c.Prefix = p })
		for _, g := range groups {
			r := request("key of " + p)
			r.Key = rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTopic, g, "topic", "", "key of "+p)
			keys[p+g] = r.Key
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
		}
	}
	for _, p := range []string{prefix, prefix + ":group"} {
		s := newStore(t, c, func(c *redis.Config) { c.Prefix = p })
		for _, g := range groups {
			n := 0
			for r, err := range s.List(t.Context(), g) {
				if err != nil {
					t.Fatal(err)
				}
				n++
				if r.Key != keys[p+g] {
					t.Errorf("prefix %q, group %q: lists %+v", p, g, r.Key)
				}
			}
			if n != 1 {
				t.Errorf("prefix %q, group %q: %d records; want one", p, g, n)
			}
		}
	}
	s := newStore(t, c)
	for _, err := range s.List(t.Context(), "group") {
		if err != nil {
			t.Error(err)
		}
		break // ends the listing
	}
	srv.do(t, "set", prefix+":group:"+strings.Repeat("!", 43), "x")
	var last error
	for _, err := range s.List(t.Context(), "group") {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "prefix") {
		t.Errorf("a foreign name: error %v; want one that says what to do", last)
	}
}
