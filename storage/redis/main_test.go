package redis_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis would tell of every Sentinel, and of connections that tests break
	goleak.VerifyTestMain(m,
		// rocketmq-client-go, which rmqdedup imports for its types, has a global cache whose janitor cannot be stopped.
		goleak.IgnoreTopFunction("github.com/patrickmn/go-cache.(*janitor).Run"),
	)
}
