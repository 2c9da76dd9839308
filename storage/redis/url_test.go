package redis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/storage/redis"
)

// Every option that a misspelt one is compared with is one that there is, in every scheme.
func TestKnownOptions(t *testing.T) {
	values := map[string]string{
		"addr": "127.0.0.1:6379", "protocol": "3", "pool_fifo": "true", "skip_verify": "true", "client_name": "name",
		"username": "user", "password": "secret", "master_name": "mymaster", "db": "1", "prefix": "prefix", "timeout": "2s",
	}
	for _, scheme := range redis.Schemes() {
		for _, name := range redis.Known(scheme) {
			value := values[name]
			if value == "" {
				value = "1"
			}
			url := scheme + "://127.0.0.1:6379?" + name + "=" + value
			if strings.HasSuffix(scheme, "sentinel") && name != "master_name" {
				url += "&master_name=mymaster"
			}
			if _, err := redis.ParseURL(url); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"redis://localhost", "redis://localhost:6379"},
		{"REDIS://localhost", "redis://localhost:6379"},
		{"redis://user:s3cret@localhost:1234/3?prefix=p&timeout=5&max_retries=2", "redis://localhost:1234"},
		{"rediss://:s3cret@[::1]:1234", "rediss://[::1]:1234"},
		{"redis://[::1]", "redis://[::1]:6379"},
		{"redis://u:%2F%3F%23%40s3cret@localhost", "redis://localhost:6379"},
		{"redis+cluster://a,b:1,c?addr=d:2", "redis+cluster://a:6379,b:1,c:6379,d:2"},
		{"rediss+cluster://a:1?addr=b:2&addr=c:3&max_redirects=5", "rediss+cluster://a:1,b:2,c:3"},
		{"redis+sentinel://s3cret:s3cret@a,b:1/0?master_name=m&password=s3cret", "redis+sentinel://a:26379,b:1"},
	} {
		u, err := redis.ParseURL(c.url)
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

func TestBadURLs(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"redis://", "there is no host"},
		{"redis:///0", "there is no host"},
		{"redis://:s3cret@/0", "there is no host"},
		{"redis://a,b", "2 hosts"},
		{"http://localhost", "redis+sentinel"},
		{"redis://localhost?poolsize=3", `no option "poolsize": did you mean pool_size`},
		{"redis://localhost?perfix=x", `no option "perfix": did you mean prefix`},
		{"redis://localhost?zzzzzzzz=x", `no option "zzzzzzzz": the options are client_name`},
		{"redis+cluster://localhost?maxredirects=3", `no option "maxredirects": did you mean max_redirects`},
		{"redis://localhost?poolsize=3&read_timeot=1&db=x&max_retries=s3cret", `poolsize`},
		{"redis://localhost?poolsize=3&read_timeot=1&db=x&max_retries=s3cret", `read_timeout`},
		{"redis://localhost?poolsize=3&read_timeot=1&db=x&max_retries=s3cret", `option max_retries: it is a whole number`},
		{"redis://localhost?db=s3cret", "option db: it is a whole number"},
		{"redis://localhost?read_timeout=s3cret", "option read_timeout: it is a duration"},
		{"redis://localhost?pool_fifo=s3cret", "option pool_fifo: it is true or false"},
		{"redis://localhost?skip_verify=true", "rediss://"},
		{"redis://localhost?timeout=s3cret", "option timeout"},
		{"redis://localhost?timeout=0", "option timeout"},
		{"redis://localhost?timeout=2h", "option timeout"},
		{"redis://localhost?prefix=", "prefix is empty"},
		{"redis://localhost?prefix=s{3}", "option prefix"},
		{"redis://localhost?pool_size=-1", "option pool_size"},
		{"redis://localhost?pool_size=99999999999", "option pool_size"},
		{"redis://localhost?pipeline_read_buffer_size=99999999999", "option pipeline_read_buffer_size"},
		{"redis://localhost?protocol=4", "option protocol"},
		{"redis://localhost/s3cret", "number of a database"},
		{"redis://localhost/1/2", "number of a database"},
		{"redis+cluster://localhost/1", "number of a database"},
		{"redis+cluster://localhost?addr=s3cret:s3cret", "option addr"},
		{"redis+cluster://localhost?read_only=true", "masters alone"},
		{"redis+cluster://localhost?route_randomly=true", "masters alone"},
		{"redis+sentinel://localhost", "master_name"},
		{"redis+sentinel://localhost?master_name=m&replica_only=true", "master alone"},
		{"redis://user:s3cret@localhost:port", "host:port"},
		{"redis://user:s3cret@localhost:99999", "65535"},
		{"redis://user:s3cret@[::1", "host:port"},
	} {
		_, err := redis.ParseURL(c.url)
		if err == nil {
			t.Errorf("%s: no error", c.url)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %q; want one that says %q, and no password", c.url, err, c.says)
		}
	}
}

func ExampleParseURL() {
	u, err := redis.ParseURL("redis+cluster://app:secret@redis-1:6379,redis-2:6379?prefix=orders")
	fmt.Println(u, err)

	_, err = redis.ParseURL("redis://app:secret@redis-1:6379/0?perfix=orders")
	fmt.Println(err)
	// Output:
	// redis+cluster://redis-1:6379,redis-2:6379 <nil>
	// storage/redis: the store's URL: there is no option "perfix": did you mean prefix?
}
