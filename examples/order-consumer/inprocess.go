package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// Without -namesrv this process is the broker as well. What takes a real one minutes is over in seconds: a second of its delay levels is 10 ms, and the
// lease is as much shorter, so that what is found in flight comes again soon.
const (
	inProcessUnit  = 10 * time.Millisecond
	inProcessLease = 2 * time.Second
)

// setInProcess completes the flags of a run without -namesrv, whose other members and whose broker are nowhere else.
func (c *config) setInProcess(f *flag.FlagSet) error {
	c.inProcess = true
	var errs []error
	given := map[string]bool{}
	f.Visit(func(each *flag.Flag) { given[each.Name] = true })
	for _, no := range []struct{ name, why string }{
		{"member", "the broker of a run without -namesrv is in its own process, where no other can be a member of the group"},
		{"ledger", "a run without -namesrv is alone in its group, and keeps it in memory"},
		{"crash-after", "a run without -namesrv has its broker in the same process, which would die with it"},
	} {
		if given[no.name] {
			errs = append(errs, fmt.Errorf("-%s: %s; give -namesrv too", no.name, no.why))
		}
	}
	if !given["lease"] {
		c.lease = inProcessLease
	}
	return errors.Join(errs...)
}

// startBroker starts the broker in this process, and is what stops it. It must be stopped last.
func (c *config) startBroker() (stop func(), err error) {
	if c.delayLevels == nil {
		c.delayLevels = rmqtest.DelayLevels(inProcessUnit)
	}
	if c.broker, err = rmqtest.Start(rmqtest.Config{DelayLevels: c.delayLevels}); err != nil {
		return nil, err
	}
	c.namesrv = []string{c.broker.Addr()}
	return func() { _ = c.broker.Close() }, nil
}

// shutDown ends a consumer by its stop: in process at a moment when its group is not balancing, at which the client has a data race.
func (c *config) shutDown(group, client string, stop func() error) error {
	if !c.inProcess {
		return stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*shutdownTime)
	defer cancel()
	return c.broker.ShutDown(ctx, group, c.instance(client), stop)
}

const withServers = `    make up && eval "$(make -s env)"
    go run ./examples/order-consumer -namesrv "$RMQDEDUP_NAMESRV" -store "$RMQDEDUP_REDIS" -delay-levels "$RMQDEDUP_DELAY_LEVELS" -lease 5s`

// commands are those that next shows. They work as they stand here.
const commands = withServers + `

The same with the state table in MySQL, and a janitor that keeps it clean:

    go run ./examples/order-consumer -namesrv "$RMQDEDUP_NAMESRV" -store "$RMQDEDUP_MYSQL" -delay-levels "$RMQDEDUP_DELAY_LEVELS" -lease 5s -janitor '@every 30s'

With the Redis or the MySQL alone, and the broker in process:

    make up SETS="redis mysql" && eval "$(make -s env)"
    go run ./examples/order-consumer -store "$RMQDEDUP_REDIS"
    go run ./examples/order-consumer -store "$RMQDEDUP_MYSQL" -janitor '@every 30s'
`

// next says how to go on from a run in process.
func (c *config) next(to io.Writer) {
	fmt.Fprintf(to, `
The broker was in this process; the state table was %s. With a real RocketMQ and a Redis, which the first
command starts (on Debian 12, as root; for other ways see docs/servers.md):

%s
All flags: go run ./examples/order-consumer -h
`, place(c.store), commands)
}
