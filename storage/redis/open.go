package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Open returns the store that a URL names, with a client of its own, which [Store.Close] closes. It fails if the server cannot be
// reached, or [Store.Check] finds it unfit, before ctx or the time limit ends; warnings go to slog.Default().
func Open(ctx context.Context, rawURL string) (*Store, error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return u.Open(ctx)
}

// Open is [Open] of a URL that has been read.
func (u *URL) Open(ctx context.Context) (*Store, error) {
	s, err := build(u.client(), u.config)
	if err != nil {
		return nil, fmt.Errorf("storage/redis: %w", err)
	}
	s.owned = true
	warnings, err := s.check(ctx)
	if err != nil {
		_ = s.Close() // what matters is why it is of no use
		return nil, fmt.Errorf("storage/redis: %s: %w%s", u, err, u.hint(err))
	}
	for _, w := range warnings {
		slog.Default().WarnContext(ctx, w, "store", s.String())
	}
	return s, nil
}

func (u *URL) client() goredis.UniversalClient {
	// Copies, since go-redis keeps and completes what it is given, and u may be opened again.
	switch {
	case u.single != nil:
		o := *u.single
		return goredis.NewClient(&o)
	case u.cluster != nil:
		o := *u.cluster
		return goredis.NewClusterClient(&o)
	}
	o := *u.sentinel
	return goredis.NewFailoverClient(&o)
}

// hint returns what to look at when the server was not reached, to be put behind the error.
func (u *URL) hint(err error) string {
	var dns *net.DNSError
	has := func(s string) bool { return strings.Contains(err.Error(), s) }
	tls := strings.HasPrefix(u.scheme, "rediss")
	switch {
	case errors.As(err, new(unfitError)), errors.Is(err, context.Canceled):
		return ""
	case u.sentinel != nil:
		return " (do Sentinels run there, and do they know a master " + u.sentinel.MasterName + "?)"
	case answered(err):
		return ""
	case errors.As(err, &dns):
		return " (is the host's name right?)"
	case tls && (has("tls:") || has("x509:") || has("EOF") || errors.Is(err, context.DeadlineExceeded)):
		return " (does Redis speak TLS on that port, with a certificate for that host? redis:// is without TLS)"
	case !tls && has("EOF"):
		return " (does Redis speak TLS on that port? then it is rediss://)"
	}
	return " (does Redis run there, and do host and port name it?)"
}
