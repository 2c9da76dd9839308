package redis

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/storage/internal/storeurl"
)

// Schemes returns the schemes of the URLs that [ParseURL] reads.
func Schemes() []string {
	return []string{"redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"}
}

// A URL is a store's URL that has been read and found to be in order. Printing it shows no password.
type URL struct {
	scheme    string
	addresses []string
	config    Config

	// One of them is not nil.
	single   *goredis.Options
	cluster  *goredis.ClusterOptions
	sentinel *goredis.FailoverOptions
}

// String returns scheme and addresses, such as "redis://127.0.0.1:6379".
func (u *URL) String() string { return u.scheme + "://" + strings.Join(u.addresses, ",") }

// GoString is String.
func (u *URL) GoString() string { return u.String() }

// ParseURL reads a store's URL and connects to nothing. See "URLs" in the package documentation. Its error names
// every option that is unknown or has a bad value, and nothing else of what is in the URL.
func ParseURL(rawURL string) (*URL, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("storage/redis: the store's URL: %w", err)
	}
	return u, nil
}

func parseURL(rawURL string) (*URL, error) {
	raw, err := storeurl.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(Schemes(), raw.Scheme) {
		return nil, fmt.Errorf("the scheme is none of %s", strings.Join(Schemes(), ", "))
	}
	if len(raw.Hosts) == 0 {
		return nil, fmt.Errorf("there is no host: %s://host:port", raw.Scheme)
	}
	u := &URL{scheme: raw.Scheme}
	// Every problem is told at once.
	err = errors.Join(u.takeOwn(raw), u.takeAddresses(raw), u.takeRest(raw))
	if err != nil {
		return nil, err
	}
	return u, nil
}

// takeOwn takes the options that are this package's.
func (u *URL) takeOwn(raw *storeurl.URL) error {
	var problems []error
	if v, ok := raw.Take("prefix"); ok {
		if v == "" {
			problems = append(problems, errors.New("prefix is empty: leave it away for "+DefaultPrefix))
		} else if err := validatePrefix(v); err != nil {
			problems = append(problems, fmt.Errorf("option prefix: %w", err))
		}
		u.config.Prefix = v
	}
	if v, ok := raw.Take("coalesce"); ok {
		coalesce, err := strconv.ParseBool(v)
		if err != nil {
			problems = append(problems, errors.New("option coalesce: it is true or false"))
		}
		u.config.Uncoalesced = !coalesce
	}
	if v, ok := raw.Take("timeout"); ok {
		d, err := time.ParseDuration(v)
		if seconds, e := strconv.ParseUint(v, 10, 16); e == nil {
			d, err = time.Duration(seconds)*time.Second, nil
		}
		if err != nil || d < time.Millisecond || d > time.Hour {
			problems = append(problems, errors.New("option timeout: it is a duration from 1ms to 1h, such as 500ms, or a number of seconds"))
		}
		u.config.Timeout = d
	}
	return errors.Join(problems...)
}

// takeAddresses takes the hosts, and the addr options by which go-redis names further ones.
func (u *URL) takeAddresses(raw *storeurl.URL) error {
	port, many := "6379", strings.Contains(raw.Scheme, "+")
	if strings.HasSuffix(raw.Scheme, "+sentinel") {
		port = "26379"
	}
	hosts := raw.Hosts
	if many {
		hosts = append(hosts, raw.Options["addr"]...)
		delete(raw.Options, "addr")
	} else if len(hosts) > 1 {
		return fmt.Errorf("%s:// is for one server, and there are %d hosts: use redis+cluster:// or redis+sentinel://", raw.Scheme, len(hosts))
	}
	for _, host := range hosts {
		if !storeurl.ValidHost(host) {
			return errors.New("option addr: it is host:port, with a port from 1 to 65535")
		}
		u.addresses = append(u.addresses, storeurl.Address(host, port))
	}
	return nil
}

// takeRest has go-redis read what is left, without user and password, so that its errors cannot show them.
func (u *URL) takeRest(raw *storeurl.URL) error {
	plain, _, _ := strings.Cut(raw.Scheme, "+") // as go-redis knows it
	base := url.URL{Scheme: plain, Host: storeurl.Address(raw.Hosts[0], "6379")}
	if raw.Path != "" {
		if n, err := strconv.ParseUint(raw.Path, 10, 16); err != nil || n > 0 && strings.HasSuffix(raw.Scheme, "+cluster") {
			return errors.New("the path is the number of a database, such as /0, which is the only one in a Cluster")
		}
		base.Path = "/" + raw.Path
	}
	var parse func(string) error
	switch {
	case strings.HasSuffix(raw.Scheme, "+cluster"):
		base.Path = ""
		parse = func(s string) (err error) { u.cluster, err = goredis.ParseClusterURL(s); return err }
	case strings.HasSuffix(raw.Scheme, "+sentinel"):
		parse = func(s string) (err error) { u.sentinel, err = goredis.ParseFailoverURL(s); return err }
	default:
		parse = func(s string) (err error) { u.single, err = goredis.ParseURL(s); return err }
	}
	if err := u.passThrough(base, raw.Options, parse); err != nil {
		return err
	}
	return u.finish(raw)
}

// passThrough has parse read the options, and if it cannot, finds out which it is about.
func (u *URL) passThrough(base url.URL, options url.Values, parse func(string) error) error {
	with := func(o url.Values) error {
		base.RawQuery = o.Encode()
		return parse(base.String())
	}
	if with(options) == nil {
		return nil
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if err := with(url.Values{name: options[name]}); err != nil {
			problems = append(problems, u.blame(name, err.Error()))
		}
	}
	if problems == nil {
		problems = append(problems, errors.New("go-redis does not take these options together"))
	}
	return errors.Join(problems...)
}

// blame says what is wrong with an option that go-redis refused with that text, which may show its value.
func (u *URL) blame(name, text string) error {
	switch {
	case name == "skip_verify" && !strings.HasPrefix(u.scheme, "rediss"):
		return errors.New("option skip_verify: it is for rediss:// alone, without TLS nothing is verified")
	case strings.Contains(text, "unexpected option"):
		return storeurl.UnknownOption(name, u.options())
	case strings.Contains(text, " duration"):
		return fmt.Errorf("option %.40s: it is a duration, such as 500ms, or a number of seconds", name)
	case strings.Contains(text, " number"):
		return fmt.Errorf("option %.40s: it is a whole number", name)
	case strings.Contains(text, " boolean"):
		return fmt.Errorf("option %.40s: it is true or false", name)
	}
	return fmt.Errorf("option %.40s: go-redis cannot read its value", name)
}

// options returns the names of those that a misspelt one could have been meant for.
func (u *URL) options() []string {
	names := []string{"prefix", "timeout", "coalesce", "client_name", "conn_max_idle_time", "conn_max_lifetime", "conn_max_lifetime_jitter", "dial_timeout",
		"max_active_conns", "max_concurrent_dials", "max_idle_conns", "max_retries", "max_retry_backoff", "min_idle_conns", "min_retry_backoff",
		"pipeline_pool_size", "pipeline_read_buffer_size", "pipeline_write_buffer_size", "pool_fifo", "pool_size", "pool_timeout", "protocol",
		"read_timeout", "write_timeout"}
	switch {
	case strings.HasSuffix(u.scheme, "+cluster"):
		names = append(names, "addr", "dialer_retries", "dialer_retry_timeout", "failing_timeout_seconds", "max_redirects")
	case strings.HasSuffix(u.scheme, "+sentinel"):
		names = append(names, "addr", "db", "master_name", "username", "password")
	default:
		names = append(names, "db")
	}
	if strings.HasPrefix(u.scheme, "rediss") && !strings.HasSuffix(u.scheme, "+cluster") {
		names = append(names, "skip_verify")
	}
	slices.Sort(names)
	return names
}

// finish sets what go-redis was not given, or has other defaults for, and refuses what it would fail on later.
func (u *URL) finish(raw *storeurl.URL) error {
	switch {
	case u.single != nil:
		o := u.single
		if len(u.addresses) > 0 { // otherwise there is an error already
			o.Addr = u.addresses[0]
		}
		o.Username, o.Password = raw.User, raw.Password
		// The wrapper tries again; five dials for each of four attempts would use up the time limit.
		o.DialerRetries = 1
		o.ContextTimeoutEnabled = true
		return inRange(o.Protocol, o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials,
			o.PipelinePoolSize, o.PipelineReadBufferSize, o.PipelineWriteBufferSize)
	case u.cluster != nil:
		o := u.cluster
		o.Addrs = u.addresses
		o.Username, o.Password = raw.User, raw.Password
		if !raw.Options.Has("dialer_retries") {
			o.DialerRetries = 1
		}
		o.ContextTimeoutEnabled = true
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return errors.New("options read_only, route_by_latency, route_randomly: claims are made and read on masters alone, leave them away")
		}
		return inRange(o.Protocol, o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials,
			o.PipelinePoolSize, o.PipelineReadBufferSize, o.PipelineWriteBufferSize)
	}
	o := u.sentinel
	o.SentinelAddrs = u.addresses
	o.SentinelUsername, o.SentinelPassword = raw.User, raw.Password
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	if o.MasterName == "" {
		return errors.New("option master_name is missing: it is the name under which the Sentinels know the master")
	}
	if o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly {
		return errors.New("options replica_only, route_by_latency, route_randomly: claims are made and read on the master alone, leave them away")
	}
	return inRange(o.Protocol, o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials,
		o.PipelinePoolSize, o.PipelineReadBufferSize, o.PipelineWriteBufferSize)
}

// inRange refuses figures with which go-redis would panic, or take all the memory.
func inRange(protocol, pool, minIdle, maxIdle, maxActive, dials, pipelinePool, readBuffer, writeBuffer int) error {
	const most, largest = 1 << 16, 1 << 26
	var problems []error
	if protocol != 0 && protocol != 2 && protocol != 3 {
		problems = append(problems, errors.New("option protocol: it is 2 or 3"))
	}
	check := func(name string, value, least, most int) {
		if value < least || value > most {
			problems = append(problems, fmt.Errorf("option %s: it is from %d to %d", name, least, most))
		}
	}
	check("pool_size", pool, 0, most)
	check("min_idle_conns", minIdle, 0, most)
	check("max_idle_conns", maxIdle, 0, most)
	check("max_active_conns", maxActive, 0, most)
	check("max_concurrent_dials", dials, 0, most)
	check("pipeline_pool_size", pipelinePool, -1, most)
	check("pipeline_read_buffer_size", readBuffer, 0, largest)
	check("pipeline_write_buffer_size", writeBuffer, 0, largest)
	return errors.Join(problems...)
}
