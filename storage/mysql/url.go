package mysql

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/storage/internal/storeurl"
)

// Schemes returns the schemes of the URLs that [ParseURL] reads.
func Schemes() []string { return []string{"mysql"} }

// A URL is a store's URL or DSN that has been read and found to be in order. Printing it shows no password.
type URL struct {
	config Config
	driver *mysqldriver.Config
	conns  int
}

// String returns the server and the database, such as "mysql://127.0.0.1:3306/orders".
func (u *URL) String() string { return "mysql://" + nameOf(u.driver) }

// GoString is String.
func (u *URL) GoString() string { return u.String() }

// ParseURL reads a store's URL, or a DSN of github.com/go-sql-driver/mysql, and connects to nothing. See "URLs" in the package
// documentation. Its error names every option of this package's that has a bad value, and shows no password.
func ParseURL(urlOrDSN string) (*URL, error) {
	u, err := parseURL(urlOrDSN)
	if err != nil {
		return nil, fmt.Errorf("storage/mysql: the store's URL: %w", err)
	}
	return u, nil
}

// IsDSN says whether s, which is no URL, can be meant as a DSN of the driver: user:password@tcp(host:port)/database.
func IsDSN(s string) bool {
	if _, isURL := storeurl.Scheme(s); isURL {
		return false
	}
	if strings.Contains(s, ")/") {
		return true // its error is better than that there is no scheme
	}
	_, err := dsnConfig(s)
	return err == nil
}

func parseURL(urlOrDSN string) (*URL, error) {
	config, err := driverConfig(urlOrDSN)
	if err != nil {
		return nil, err
	}
	u := &URL{driver: config, conns: defaultConns}
	err = u.takeOwn()
	if config.DBName == "" {
		err = errors.Join(err, errors.New("there is no database: mysql://user:password@host:port/database"))
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

// driverConfig has the driver read all but user and password, so that its errors cannot show these. What it does not know are
// Params then, ours among them.
func driverConfig(urlOrDSN string) (*mysqldriver.Config, error) {
	if _, isURL := storeurl.Scheme(urlOrDSN); !isURL {
		return dsnConfig(urlOrDSN)
	}
	raw, err := storeurl.Parse(urlOrDSN)
	if err != nil {
		return nil, err
	}
	switch {
	case !slices.Contains(Schemes(), raw.Scheme):
		return nil, fmt.Errorf("the scheme is not %s", strings.Join(Schemes(), " or "))
	case len(raw.Hosts) == 0:
		return nil, errors.New("there is no host: mysql://user:password@host:port/database")
	case len(raw.Hosts) > 1:
		return nil, fmt.Errorf("there are %d hosts, and mysql:// is for one: the nodes of a cluster are reached through a proxy or a name", len(raw.Hosts))
	}
	dsn := "tcp(" + storeurl.Address(raw.Hosts[0], "3306") + ")/" + url.PathEscape(raw.Path)
	if len(raw.Options) > 0 {
		dsn += "?" + raw.Options.Encode()
	}
	config, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.User, config.Passwd = raw.User, raw.Password
	return config, nil
}

const formOfDSN = "user:password@tcp(host:port)/database?option=value"

// dsnConfig finds user and password in a DSN as the driver does: before the last @ that stands before the last slash.
func dsnConfig(dsn string) (*mysqldriver.Config, error) {
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 0 {
		return nil, errors.New("it is neither mysql://user:password@host:port/database nor a DSN such as " + formOfDSN)
	}
	account, address := "", dsn[:slash]
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		account, address = address[:at], address[at+1:]
	}
	// What stands there instead of an address may be a password.
	network, _, hasAddress := strings.Cut(address, "(")
	if strings.Contains(network, ":") || !hasAddress && network != "" && network != "tcp" && network != "unix" {
		return nil, errors.New("there is no tcp(host:port) before the last slash: a DSN is " + formOfDSN + ", with each slash in a value as %2F")
	}
	if strings.Contains(dsn[slash:], "@") {
		return nil, errors.New("there is an @ behind the last slash: a DSN is " + formOfDSN + ", with / and @ in database and values as %2F and %40")
	}
	config, err := mysqldriver.ParseDSN(address + dsn[slash:])
	if err != nil {
		return nil, err
	}
	config.User, config.Passwd, _ = strings.Cut(account, ":")
	return config, nil
}

// takeOwn takes the options that are this package's.
func (u *URL) takeOwn() error {
	var problems []error
	take := func(name, want string, read func(string) error) {
		v, ok := u.driver.Params[name]
		if !ok {
			return
		}
		delete(u.driver.Params, name)
		if read(v) != nil {
			problems = append(problems, fmt.Errorf("option %s: it is %s", name, want))
		}
	}
	errBad := errors.New("bad")
	take("table", fmt.Sprintf("a name of 1 to %d letters, digits and _", maxTable), func(v string) error {
		u.config.Table = v
		return validateTable(v)
	})
	take("call_timeout", "a duration from "+minTimeout.String()+" to 1h, such as 5s", func(v string) (err error) {
		u.config.Timeout, err = time.ParseDuration(v)
		if err == nil && (u.config.Timeout < minTimeout || u.config.Timeout > time.Hour) {
			err = errBad
		}
		return err
	})
	take("migrate", "true or false", func(v string) (err error) {
		u.config.Migrate, err = strconv.ParseBool(v)
		return err
	})
	take("coalesce", "true or false", func(v string) error {
		coalesce, err := strconv.ParseBool(v)
		u.config.Uncoalesced = !coalesce
		return err
	})
	take("max_conns", "a number of connections from 1 to 1000", func(v string) (err error) {
		u.conns, err = strconv.Atoi(v)
		if err == nil && (u.conns < 1 || u.conns > 1000) {
			err = errBad
		}
		return err
	})
	return errors.Join(problems...)
}
