// Package storeurl reads the URLs of stores without ever showing a password: no error of its says anything that stood in the URL, except the
// scheme, and the names of options. The standard library's errors quote the URL, so they are not used.
package storeurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A URL is a store's, in its parts, all unescaped.
type URL struct {
	Scheme   string
	User     string
	Password string
	Hosts    []string // each host:port, or a host alone; one, several after one another with commas, or none
	Path     string   // without its leading slash
	Options  url.Values
}

// Scheme returns what stands before ://, in lower case, and whether it could be a scheme at all.
func Scheme(raw string) (string, bool) {
	scheme, _, ok := strings.Cut(raw, "://")
	if !ok || scheme == "" || len(scheme) > 40 {
		return "", false
	}
	for i, c := range []byte(strings.ToLower(scheme)) {
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return "", false
		}
	}
	return strings.ToLower(scheme), true
}

// Parse reads a URL of the form scheme://user:password@host:port,host:port/path?option=value&option=value.
func Parse(raw string) (*URL, error) {
	scheme, ok := Scheme(raw)
	if !ok {
		return nil, errors.New("there is no scheme before ://")
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, errors.New("there is a blank or a control character in it: percent-encode it, as %20")
	}
	u := &URL{Scheme: scheme}
	raw = raw[len(scheme)+len("://"):]
	end := strings.IndexAny(raw, "/?#")
	if end < 0 {
		end = len(raw)
	}
	authority, tail := raw[:end], raw[end:]
	if strings.Contains(tail, "@") {
		return nil, errors.New("there is an @ behind the host: a password with / ? or # in it must be percent-encoded (%2F %3F %23), and an @ in an option too (%40)")
	}
	if strings.Contains(tail, "#") {
		return nil, errors.New("there is a # in it: percent-encode it, as %23")
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if err := u.parseUser(authority[:at]); err != nil {
			return nil, err
		}
		authority = authority[at+1:]
	}
	if err := u.parseHosts(authority); err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(tail, "?")
	var err error
	if u.Path, err = url.PathUnescape(strings.TrimPrefix(path, "/")); err != nil {
		return nil, errors.New("there is a % in the path that is not followed by two hexadecimal digits: write it as %25")
	}
	if u.Options, err = url.ParseQuery(query); err != nil {
		return nil, errors.New("the options behind ? cannot be read: they are name=value, with & between them, and % ; + & in a value percent-encoded (%25 %3B %2B %26)")
	}
	return u, nil
}

func (u *URL) parseUser(s string) error {
	user, password, _ := strings.Cut(s, ":")
	var err1, err2 error
	u.User, err1 = url.PathUnescape(user)
	u.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("there is a % in user or password that is not followed by two hexadecimal digits: write it as %25")
	}
	return nil
}

func (u *URL) parseHosts(s string) error {
	if s == "" {
		return nil
	}
	for host := range strings.SplitSeq(s, ",") {
		if !ValidHost(host) {
			return errors.New("a host is not of the form host, host:port or [IPv6]:port, with a port from 1 to 65535 " +
				"(if that was to be a password: user:password@host, with % / ? # and @ in it percent-encoded)")
		}
		u.Hosts = append(u.Hosts, host)
	}
	return nil
}

// ValidHost says whether s is a host, with a port or without.
func ValidHost(s string) bool {
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return false
		}
		address, zone, _ := strings.Cut(s[1:end], "%25")
		if net.ParseIP(address) == nil || strings.ContainsAny(zone, "%[") {
			return false
		}
		host, port = "v6", s[end+1:]
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 {
		host, port = s[:colon], s[colon:]
	}
	for _, c := range []byte(host) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	if host == "" {
		return false
	}
	return port == "" || port[0] == ':' && validPort(port[1:])
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// Address returns a valid host with its port, or else with that one.
func Address(host, port string) string {
	if strings.HasSuffix(host, "]") || !strings.Contains(host, ":") {
		return net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	return host
}

// Take returns the last value of an option and removes it.
func (u *URL) Take(name string) (value string, ok bool) {
	values := u.Options[name]
	delete(u.Options, name)
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}

// UnknownOption returns the error for an option that there is not, with those that are spelt much like it, or else all.
func UnknownOption(name string, known []string) error {
	if similar := Closest(name, known); len(similar) > 0 {
		return fmt.Errorf("there is no option %.40q: did you mean %s?", name, strings.Join(similar, " or "))
	}
	return fmt.Errorf("there is no option %.40q: the options are %s", name, strings.Join(known, ", "))
}

// Closest returns those of the known names that are spelt much like name, the closest first.
func Closest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var all []candidate
	limit := min(max(2, len(name)/3), 4)
	if len(name) < 4 {
		limit = 1
	}
	for _, k := range known {
		if len(name) > len(k)+limit { // and however long it is, it costs nothing
			continue
		}
		if d := distance(strings.ToLower(name), k); d <= limit {
			all = append(all, candidate{k, d})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range all {
		if c.distance <= all[0].distance+1 && len(names) < 3 {
			names = append(names, c.name)
		}
	}
	return names
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
