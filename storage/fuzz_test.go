package storage

import (
	"strings"
	"testing"
)

// Reading a URL never panics, and whatever characters stand in and around a password, no error shows it.
func FuzzParse(f *testing.F) {
	const secret = "s3cret"
	for _, seed := range [][]string{
		{"redis", "user", "", "", "localhost:6379/0?pool_size=3"},
		{"redis+cluster", "", "%", "?", "a,b:1?addr=c:3&prefix=x"},
		{"redis+sentinel", "u", "/", "#", "[::1]:26379/1?master_name=m&password=x"},
		{"rediss", "@", "@", ":", "localhost?skip_verify=1&timeout=3s"},
		{"memory", "", "", "", "?max_keys=3"},
		{"http", ":", "://", " ", "\x00"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		if strings.Contains(scheme+"|"+user+"|"+before+"|"+after+"|"+rest, secret) {
			t.Skip("it stands elsewhere as well")
		}
		url := scheme + "://" + user + ":" + before + secret + after + "@" + rest
		if _, err := parse(url); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", url, err)
		}
		if _, err := parse(rest); err == nil && rest == "" {
			t.Error("nothing is a URL")
		}
	})
}
