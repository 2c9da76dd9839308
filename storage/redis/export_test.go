package redis

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// Name is the name of a key's record.
func Name(prefix string, k rmqdedup.Key) string { return (&Store{prefix: prefix}).name(&k) }

// NewTestClient returns a client for a store's URL.
func NewTestClient(t testing.TB, url string) goredis.UniversalClient {
	t.Helper()
	u, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return u.client()
}

// NewHeeding is New with a client of which it is known that it comes back when a context ends.
func NewHeeding(t testing.TB, client goredis.UniversalClient, uncoalesced bool) *Store {
	t.Helper()
	s, err := build(client, Config{Prefix: "bench:" + rmqdedup.NewOwner().String(), Uncoalesced: uncoalesced})
	if err != nil {
		t.Fatal(err)
	}
	s.heeds = true
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Script is the text of a script.
func Script(name string) string { return load("record", name).text }

// Known are the options that a misspelt one is compared with.
func Known(scheme string) []string { return (&URL{scheme: scheme}).options() }

// Rights are those that the package documentation says a user needs.
func Rights() []any {
	return []any{"+evalsha", "+eval", "+get", "+set", "+setrange", "+pexpire", "+pttl", "+del", "+time", "+scan", "+ping", "+info", "+hello"}
}
