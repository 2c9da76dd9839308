package e2e

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/rlog"
	"go.uber.org/goleak"
)

// atOnce is how many stories are played at a time, unless -parallel says otherwise. They wait for the broker nearly all of their time, whatever the number
// of processors.
const atOnce = 16

var turns chan struct{}

// awaitTurn waits until a story may be played. Those that wait for each other take nobody's turn, and begin at once: together they take the longest.
func (set *setting) awaitTurn(t *testing.T) {
	if set.restarts {
		return
	}
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
}

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
	f, n := flag.Lookup("test.parallel"), atOnce
	if f.Value.String() != f.DefValue {
		n, _ = strconv.Atoi(f.Value.String())
	}
	turns = make(chan struct{}, n)
	_ = f.Value.Set("1000") // it is turns that decides
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
