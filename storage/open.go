// Package storage opens the store that a URL names, so that a flag can choose it.
//
//	memory://                                  in this process, for tests and demonstrations; ?max_keys=100000 bounds it
//	redis://user:password@host:6379/0          one Redis
//	rediss://host:6379                         the same over TLS
//	redis+cluster://host1:6379,host2:6379      a Redis Cluster, of which any node or nodes are named
//	redis+sentinel://host:26379?master_name=m  a Redis behind Sentinel
//	mysql://user:password@host:3306/database   a table in MySQL or MariaDB; ?migrate=true creates it
//	user:password@tcp(host:3306)/database      the same, as a DSN of go-sql-driver/mysql
//
// Each of those for Redis has its rediss form. What else a URL may say is described with the stores: [redis.ParseURL] and [mysql.ParseURL]
// with their packages, and package memory. The packages also make stores of what a program has already, such as a client or a *gorm.DB.
//
// In user, password, path and options % / ? # @ and blanks are percent-encoded, as in any URL. No error of this package
// shows anything of a URL but its scheme, its host and the names of its options.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/internal/storeurl"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
	"github.com/rmqdedup/rmqdedup-go/storage/redis"
)

// A Store is one that Open made, and that its user closes when what uses it has been shut down.
type Store interface {
	rmqdedup.Store
	// Close closes the store and what it opened. Operations fail with [rmqdedup.ErrClosed] from then on.
	io.Closer
}

// Open returns the store that the URL names. It fails if the URL is not in order, and names every option that is not; or if the
// server cannot be reached before ctx ends, or within the store's own time limit (a few seconds); or if the
// server is unfit. What is worth a warning about the server goes to slog.Default().
func Open(ctx context.Context, url string) (Store, error) {
	open, err := parse(url)
	if err != nil {
		return nil, err
	}
	return open.open(ctx)
}

// Migrate creates what the store of that URL needs before it can be opened, where it needs anything: the table of mysql://. It does nothing
// if that is there, and any number of processes may call it at once.
func Migrate(ctx context.Context, url string) error {
	open, err := parse(url)
	if err != nil || open.migrate == nil {
		return err
	}
	return open.migrate(ctx)
}

// An opener is the URL of a store that has been read.
type opener struct {
	open    func(ctx context.Context) (Store, error)
	migrate func(ctx context.Context) error // nil: there is nothing to do
}

// A kind of store is known by the schemes of its URLs.
type kind struct {
	schemes []string
	parse   func(url string) (*opener, error)
}

var kinds = []kind{
	{[]string{"memory"}, parseMemory},
	{redis.Schemes(), parseRedis},
	{mysql.Schemes(), parseMySQL},
}

// parse reads a URL without connecting to anything.
func parse(url string) (*opener, error) {
	var known []string
	scheme, ok := storeurl.Scheme(url)
	for _, k := range kinds {
		for _, s := range k.schemes {
			if s == scheme {
				return k.parse(url)
			}
			known = append(known, s)
		}
	}
	list := strings.Join(known, "://, ") + "://"
	if mysql.IsDSN(url) {
		return parseMySQL(url)
	}
	if !ok {
		return nil, fmt.Errorf("storage: a store's URL begins with one of %s: this one has no scheme", list)
	}
	if similar := storeurl.Closest(scheme, known); len(similar) > 0 {
		return nil, fmt.Errorf("storage: there is no store for %s://; did you mean %s://? There are %s", scheme, similar[0], list)
	}
	return nil, fmt.Errorf("storage: there is no store for %s://; there are %s", scheme, list)
}

func parseRedis(url string) (*opener, error) {
	u, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return &opener{open: opening(u.Open)}, nil
}

func parseMySQL(url string) (*opener, error) {
	u, err := mysql.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return &opener{open: opening(u.Open), migrate: u.Migrate}, nil
}

// opening returns open for stores of any kind. An error comes without a store: a nil *redis.Store would be a Store that is not nil.
func opening[S Store](open func(ctx context.Context) (S, error)) func(ctx context.Context) (Store, error) {
	return func(ctx context.Context) (Store, error) {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func parseMemory(url string) (*opener, error) {
	u, err := storeurl.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("storage: the store's URL: %w", err)
	}
	if len(u.Hosts) > 0 || u.Path != "" || u.User != "" || u.Password != "" {
		return nil, errors.New("storage: memory:// has no host, user or path: it is memory://, or memory://?max_keys=100000")
	}
	var config memory.Config
	if v, ok := u.Take("max_keys"); ok {
		n, err := strconv.Atoi(v)
		if err != nil || n <= 0 {
			return nil, errors.New("storage: option max_keys of memory://: it is a whole number above 0")
		}
		config.MaxKeys = n
	}
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(u.Options)) {
		unknown = append(unknown, fmt.Errorf("storage: memory://: %w", storeurl.UnknownOption(name, []string{"max_keys"})))
	}
	if err := errors.Join(unknown...); err != nil {
		return nil, err
	}
	return &opener{open: func(context.Context) (Store, error) {
		s, err := memory.New(config)
		if err != nil {
			return nil, fmt.Errorf("storage: memory://: %w", err)
		}
		return s, nil
	}}, nil
}
