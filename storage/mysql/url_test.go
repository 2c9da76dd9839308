package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"mysql://localhost/orders", "mysql://localhost:3306/orders"},
		{"MYSQL://user:s3cret@localhost:1234/orders?table=state_1&call_timeout=5s&migrate=true&max_conns=3", "mysql://localhost:1234/orders"},
		{"mysql://u:%2F%3F%23%40%25%3As3cret@[::1]/orders", "mysql://[::1]:3306/orders"},
		{"mysql://localhost/a%2Fb%20c", "mysql://localhost:3306/a/b c"},
		{"mysql://localhost/orders?tls=skip-verify&readTimeout=5s&sql_mode=%27ANSI%27&loc=America%2FNew_York", "mysql://localhost:3306/orders"},
		{"user:s3cret@tcp(localhost:3306)/orders?migrate=1", "mysql://localhost:3306/orders"},
		{"user:s3c/r@e:t?s3cret@tcp(localhost)/orders", "mysql://localhost:3306/orders"},
		{"user@unix(/run/mysqld.sock)/orders", "mysql:///run/mysqld.sock/orders"},
		{"/orders", "mysql://127.0.0.1:3306/orders"},
	} {
		u, err := mysql.ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		for _, text := range []string{fmt.Sprint(u), fmt.Sprintf("%+v", u), fmt.Sprintf("%#v", u)} {
			if text != c.says {
				t.Errorf("%s: %s; want %s", c.url, text, c.says)
			}
		}
	}
}

// An error says what is wrong, and nothing that may be a password: not even where somebody has put it into the wrong place.
func TestBadURLs(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"mysql://", "there is no host"},
		{"mysql:///orders", "there is no host"},
		{"mysql://user:s3cret@localhost", "there is no database"},
		{"mysql://user:s3cret@localhost/", "there is no database"},
		{"user:s3cret@tcp(localhost)/", "there is no database"},
		{"mysql://user:s3cret@a,b/orders", "there are 2 hosts"},
		{"redis://user:s3cret@localhost/orders", "the scheme is not mysql"},
		{"mysql://user:s3cret/@localhost/orders", "percent-encoded"},
		{"mysql://user:s3cret@localhost:port/orders", "65535"},
		{"mysql://user:s3cret@localhost/orders?tls=nowhere", "nowhere"},
		{"mysql://user:s3cret@localhost/orders?parseTime=maybe", "maybe"},
		{"mysql://localhost/orders?table=", "option table: it is a name of 1 to 64"},
		{"mysql://localhost/orders?table=shop.s3cret", "option table"},
		{"mysql://localhost/orders?table=s3cret%60", "option table"},
		{"mysql://localhost/orders?table=" + strings.Repeat("a", 65), "option table"},
		{"mysql://localhost/orders?call_timeout=s3cret", "option call_timeout: it is a duration from 1.5s to 1h"},
		{"mysql://localhost/orders?call_timeout=1s", "option call_timeout"},
		{"mysql://localhost/orders?call_timeout=2h", "option call_timeout"},
		{"mysql://localhost/orders?migrate=s3cret", "option migrate: it is true or false"},
		{"mysql://localhost/orders?max_conns=0", "option max_conns: it is a number of connections from 1 to 1000"},
		{"mysql://localhost/orders?max_conns=1001", "option max_conns"},
		{"mysql://localhost/?max_conns=0&migrate=x", "option max_conns"},
		{"mysql://localhost/?max_conns=0&migrate=x", "option migrate"},
		{"mysql://localhost/?max_conns=0&migrate=x", "there is no database"},
		// As a DSN.
		{"", "neither mysql://user"},
		{"user:s3cret", "neither"},
		{"user:s3cret/orders", "tcp(host:port)"},
		{"user:s3cret(localhost)/orders", "tcp(host:port)"},
		{"user:s3cret@host/orders", "tcp(host:port)"},
		{"user:p@s3cret/orders", "tcp(host:port)"},
		{"user:s3cret@tcp(localhost/orders", "missing closing brace"},
		{"user:x/s3cret%zz@tcp(localhost)", "tcp(host:port)"},
		{":/s3cret%zz@tcp(localhost)", "tcp(host:port)"},
		{"/s3cret%zz@tcp(localhost)", "%2F and %40"},
		{"/y?parseTime=s3cret@tcp(localhost)", "%2F and %40"},
		{"user:@/s3cret@tcp", "%2F and %40"},
		{"user:s3cret@tcp(localhost)/orders?loc=America/New_York", "escape"},
		{"user:s3cret@tcp(localhost)/orders?call_timeout=1s", "option call_timeout"},
	} {
		_, err := mysql.ParseURL(c.url)
		if err == nil {
			t.Errorf("%s: no error", c.url)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %q; want one that says %q, and no password", c.url, err, c.says)
		}
	}
}

func TestIsDSN(t *testing.T) {
	for s, want := range map[string]bool{
		"user:pw@tcp(localhost:3306)/orders":    true,
		"tcp(localhost)/orders?tls=nowhere":     true, // a bad one, but nothing else
		"user:pw@/orders":                       true,
		"mysql://user:pw@localhost/orders":      false,
		"redis://localhost":                     false,
		"redis:/localhost":                      false,
		"localhost":                             false,
		"":                                      false,
		"user:pw@localhost/orders":              false,
		"memory://?x=user:pw@tcp(localhost)/db": false,
	} {
		if got := mysql.IsDSN(s); got != want {
			t.Errorf("%q: %v; want %v", s, got, want)
		}
	}
}

// Reading a URL or a DSN never panics, and whatever characters stand around a password, neither an error nor what is printed of it
// shows it.
func FuzzParseURL(f *testing.F) {
	const secret = "s3cret"
	for _, seed := range [][]string{
		{"mysql://", "user", "", "", "localhost:3306/orders?migrate=true"},
		{"mysql://", "us%er", "%", "?", "[::1]/orders?table=x&max_conns=0"},
		{"mysql://", "u", "/", "#", "a,b/orders?call_timeout=1"},
		{"MYSQL://", "@", "@", ":", "localhost/?tls=nowhere"},
		{"", "user", "", "", "tcp(localhost:3306)/orders?parseTime=maybe"},
		{"", "user", "/", "@", "unix(/tmp/sock)/orders?loc=Nowhere"},
		{"", "user", "", "", "localhost/orders"},
		{"", "", "", "(x)/", "orders"},
		{"", "user", "x/", "%zz", "tcp(localhost)"},
		{"", "user", "x/y?allowAllFiles=", "", "tcp(localhost)"},
		{"", "user", "@/", "", "x"},
		{"", "@/", "", "?", "x"},
		{"", ":", "://", " ", "\x00"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		if strings.Contains(scheme+"|"+user+"|"+before+"|"+after+"|"+rest, secret) {
			t.Skip("it stands elsewhere as well")
		}
		for _, s := range []string{scheme + user + ":" + before + secret + after + "@" + rest, rest} {
			u, err := mysql.ParseURL(s)
			if err != nil {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q: %v", s, err)
				}
				continue
			}
			if shown := fmt.Sprintf("%v %+v %#v", u, u, u); strings.Contains(shown, secret) {
				t.Errorf("%q prints as %s", s, shown)
			}
		}
	})
}

func ExampleParseURL() {
	u, err := mysql.ParseURL("mysql://app:secret@db-1/orders?table=orders_state&tls=true")
	fmt.Println(u, err)

	u, err = mysql.ParseURL("app:secret@tcp(db-1:3306)/orders?table=orders_state")
	fmt.Println(u, err)

	_, err = mysql.ParseURL("mysql://app:secret@db-1/orders?table=shop.orders_state")
	fmt.Println(err)
	// Output:
	// mysql://db-1:3306/orders <nil>
	// mysql://db-1:3306/orders <nil>
	// storage/mysql: the store's URL: option table: it is a name of 1 to 64 letters, digits and _
}
