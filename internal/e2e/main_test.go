package e2e

import (
	"flag"
	"os"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/rlog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	level := os.Getenv("RMQDEDUP_CLIENT_LOG")
	if level == "" {
		level = "fatal" // what goes wrong with a client is what stories are about
	}
	rlog.SetLogLevel(level)
	if cast := os.Getenv(childVariable); cast != "" {
		runChild(cast)
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		// Stories wait for the broker nearly all of their time, whatever the number of processors.
		_ = f.Value.Set("16")
	}
	goleak.VerifyTestMain(m, lingering()...)
}

// lingering are the goroutines that the client leaves behind when it is shut down, one by one, so that ours are missed by nobody.
func lingering() []goleak.Option {
	const client = "github.com/apache/rocketmq-client-go/v2/"
	var options []goleak.Option
	for _, f := range []string{
		// A consumer's: sleeps for the consume timeout, 15 minutes, before it looks whether there is anything left to do.
		client + "consumer.(*pushConsumer).Start.func1.2",
		// A consumer's pulls: each waits for its answer, which comes no more, for 30 seconds, and then for 3.
		client + "consumer.(*pushConsumer).pullMessage",
		// An ordered consumer's look for messages, for 5 seconds, and its pause when it has not got the lock, of 3.
		client + "consumer.(*processQueue).takeMessages",
		client + "consumer.(*pushConsumer).tryLockLaterAndReconsume",
		// A consumer's statistics, 15 goroutines: sleep until the next minute, hour and day; nothing ends them.
		client + "consumer.(*statsItemSet).init.func4",
		client + "consumer.(*statsItemSet).init.func5",
		client + "consumer.(*statsItemSet).init.func6",
		// A client's timers, for name servers, routes, heart beats and offsets: sleep for up to 10 seconds before they look.
		client + "internal.(*rmqClient).Start.func1.1",
		client + "internal.(*rmqClient).Start.func1.2",
		client + "internal.(*rmqClient).Start.func1.3",
		client + "internal.(*rmqClient).Start.func1.4",
		// The connection to the name server, which nobody closes.
		client + "internal/remote.(*remotingClient).receiveResponse",
	} {
		options = append(options, goleak.IgnoreAnyFunction(f))
	}
	// Of the client's message cache.
	return append(options, goleak.IgnoreAnyFunction("github.com/patrickmn/go-cache.(*janitor).Run"))
}
