package rmqtest

// ClientGoroutines names the functions in which goroutines of the client outlive its Shutdown. A test that looks for
// leaks of its own gives each to goleak.IgnoreAnyFunction.
func ClientGoroutines() []string {
	const client = "github.com/apache/rocketmq-client-go/v2/"
	return []string{
		client + "consumer.(*pushConsumer).pullMessage",           // a held pull, up to 33 s
		client + "consumer.(*pushConsumer).Start.func1.2",         // the expiry of messages, up to the consume timeout
		client + "consumer.(*pushConsumer).Start.func1.3",         // an ordered consumer's locks, up to 1 s
		client + "consumer.(*pushConsumer).consumeMessageOrderly", // an ordered consumer's pause without a lock, up to 3 s
		client + "consumer.(*statsItemSet).init.func4",            // statistics: up to the next minute,
		client + "consumer.(*statsItemSet).init.func5",            // the next hour,
		client + "consumer.(*statsItemSet).init.func6",            // and the next month
		client + "internal.(*rmqClient).Start.func1.1",            // name server addresses, up to 10 s
		client + "internal.(*rmqClient).Start.func1.2",            // routes, up to 10 ms
		client + "internal.(*rmqClient).Start.func1.3",            // heart beats, up to 1 s
		client + "internal.(*rmqClient).Start.func1.4",            // offsets, up to 10 s
		"github.com/patrickmn/go-cache.(*janitor).Run",            // one a process, for ever
	}
}
