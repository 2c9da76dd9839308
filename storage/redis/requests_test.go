package redis_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/redis"
)

const prefix = "own"

// newStore returns a store on a client of the test's own.
func newStore(t testing.TB, c goredis.UniversalClient, configure ...func(*redis.Config)) *redis.Store {
	t.Helper()
	config := redis.Config{Prefix: prefix, Timeout: 20 * time.Second, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range configure {
		f(&config)
	}
	s, err := redis.New(c, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func within(d time.Duration) func(*redis.Config) { return func(c *redis.Config) { c.Timeout = d } }

func key(value string) rmqdedup.Key {
	return rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "group", "orders", "paid", value)
}

// request returns a new owner's for that key, with times that do not run out in a test.
func request(value string) rmqdedup.Request {
	return rmqdedup.Request{
		Key: key(value), Owner: rmqdedup.NewOwner(), Lease: time.Hour, Grace: 2 * time.Hour, Retention: 3 * time.Hour,
		MessageID: "message of " + value, Attempt: 4, Fingerprint: 5,
	}
}

// requests returns n of them with different keys, the same ones each time.
func requests(n int) []rmqdedup.Request { return named("key", n) }

func named(name string, n int) []rmqdedup.Request {
	reqs := make([]rmqdedup.Request, n)
	for i := range reqs {
		reqs[i] = request(name + "-" + strconv.Itoa(i))
	}
	return reqs
}

// strangers returns the same requests with other owners.
func strangers(reqs ...rmqdedup.Request) []rmqdedup.Request {
	others := append([]rmqdedup.Request(nil), reqs...)
	for i := range others {
		others[i].Owner = rmqdedup.NewOwner()
	}
	return others
}

func do(t testing.TB, s rmqdedup.Store, op rmqdedup.Op, reqs ...rmqdedup.Request) []rmqdedup.Answer {
	t.Helper()
	answers, err := rmqdedup.Do(context.WithoutCancel(t.Context()), s, op, reqs)
	if err != nil {
		t.Fatalf("%v: %v", op, err)
	}
	if len(answers) != len(reqs) {
		t.Fatalf("%v: %d answers to %d requests", op, len(answers), len(reqs))
	}
	return answers
}

// want has every request answered with that outcome.
func want(t testing.TB, s rmqdedup.Store, outcome rmqdedup.Outcome, op rmqdedup.Op, reqs ...rmqdedup.Request) []rmqdedup.Answer {
	t.Helper()
	answers := do(t, s, op, reqs...)
	for i, a := range answers {
		if a.Outcome != outcome || a.Err != nil {
			t.Fatalf("%v of request %d: %v, error %v; want %v", op, i, a.Outcome, a.Err, outcome)
		}
	}
	return answers
}

// wantErr has every request answered with that error.
func wantErr(t testing.TB, s rmqdedup.Store, target error, op rmqdedup.Op, reqs ...rmqdedup.Request) {
	t.Helper()
	for i, a := range do(t, s, op, reqs...) {
		if !errors.Is(a.Err, target) || a.Outcome != 0 {
			t.Errorf("%v of request %d: %v, error %v; want %v", op, i, a.Outcome, a.Err, target)
		}
	}
}

var allOps = []rmqdedup.Op{
	rmqdedup.OpAcquire, rmqdedup.OpRenew, rmqdedup.OpComplete, rmqdedup.OpRelease, rmqdedup.OpAbandon, rmqdedup.OpLookup, rmqdedup.OpForget,
}

// redisName is the name of a request's record under the tests' prefix.
func redisName(r rmqdedup.Request) string { return redis.Name(prefix, r.Key) }
