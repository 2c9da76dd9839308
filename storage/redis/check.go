package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// An unfitError says why a server cannot be a store's.
type unfitError string

func (e unfitError) Error() string { return string(e) }

// Check asks every master whether it can serve as a store. The error says that one cannot: it is not reachable, is a replica, or is a
// node of a Cluster that the client does not treat as one. The warnings are sentences about what works but may lose records: an eviction policy
// other than noeviction, a release older than 6.2. What a server does not tell, as managed ones may not, is neither.
// The warnings are kept for [Store.Warnings].
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	warnings, err = s.check(ctx)
	if err != nil {
		return nil, fmt.Errorf("storage/redis: check: %w", err)
	}
	return warnings, nil
}

func (s *Store) check(ctx context.Context) (warnings []string, err error) {
	nodes, err := s.masters(ctx)
	if err != nil {
		return nil, err
	}
	on := make(map[string][]string) // which nodes a warning is about
	for _, node := range nodes {
		info, err := s.info(ctx, node)
		if err == nil {
			err = s.fit(ctx, node, info)
		}
		if err != nil && s.cluster != nil {
			err = fmt.Errorf("%s: %w", addressOf(node), err)
		}
		if err != nil {
			return nil, err
		}
		for _, w := range concerns(info) {
			if on[w] == nil {
				warnings = append(warnings, w)
			}
			on[w] = append(on[w], addressOf(node))
		}
	}
	for i, w := range warnings {
		if s.cluster != nil {
			warnings[i] += " (on " + strings.Join(on[w], ", ") + ")"
		}
	}
	s.warnings.Store(&warnings)
	return warnings, nil
}

// Warnings returns what the last [Store.Check] that came to its end warned about, that of [New] or [Open] included.
func (s *Store) Warnings() []string {
	if w := s.warnings.Load(); w != nil {
		return append([]string(nil), *w...)
	}
	return nil
}

// info returns the fields of INFO, none if the server answers but does not tell.
func (s *Store) info(ctx context.Context, node goredis.UniversalClient) (map[string]string, error) {
	text, err := ask(ctx, s, func(ctx context.Context) (string, error) {
		// Without a section: two at once is a Redis 7 matter, and one round trip is enough.
		text, err := node.Info(ctx).Result()
		if goredis.IsPermissionError(err) || goredis.HasErrorPrefix(err, "unknown command") || goredis.HasErrorPrefix(err, "ERR unknown command") {
			return "", node.Ping(ctx).Err()
		}
		return text, err
	})
	return fieldsOf(text), err
}

// fieldsOf reads what INFO and CLUSTER INFO answer.
func fieldsOf(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// fit returns an unfitError where there is reason for one.
func (s *Store) fit(ctx context.Context, node goredis.UniversalClient, info map[string]string) error {
	if info["role"] == "slave" {
		return unfitError("the server is a replica, which cannot be written: connect to the master, or through Sentinel (redis+sentinel://)")
	}
	if info["loading"] == "1" {
		return unfitError("the server is still loading its data: try again when it has")
	}
	if info["cluster_enabled"] == "1" && s.cluster == nil {
		// A Cluster of one shard can be used as if it were none.
		cluster, err := ask(ctx, s, func(ctx context.Context) (string, error) { return node.ClusterInfo(ctx).Result() })
		if size := fieldsOf(cluster)["cluster_size"]; err == nil && size != "0" && size != "1" {
			return unfitError("the server is one of " + size + " masters of a Redis Cluster: use redis+cluster://, or a goredis.ClusterClient")
		}
	}
	return nil
}

// concerns returns what a server should be warned about.
func concerns(info map[string]string) (warnings []string) {
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("maxmemory-policy is %s, with which Redis may drop claims and DONE when its memory is full, "+
			"so that finished messages would run again: set it to noeviction", policy))
	}
	if version := info["redis_version"]; version != "" && older(version, 6, 2) {
		warnings = append(warnings, fmt.Sprintf("Redis %s is older than 6.2, the oldest release that this store is tested with", version))
	}
	return warnings
}

// older says whether version, such as 6.0.16, is before major.minor.
func older(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

func addressOf(node goredis.UniversalClient) string {
	if c, ok := node.(*goredis.Client); ok {
		return c.Options().Addr
	}
	return "the server"
}
