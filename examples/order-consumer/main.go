// Order-consumer is a consumer of a topic whose orders arrive more than once, and a tally of what became of them.
//
// It makes a topic, sends orders to it, some of them twice, and consumes them with a listener that fails now and then. The listener knows
// nothing of duplicates: rmqdedup keeps them away from it. At the end it says how often each order succeeded, which should be once.
//
//	go run ./examples/order-consumer
//	go run ./examples/order-consumer -namesrv 127.0.0.1:9876 -store redis://127.0.0.1:6379/0
//	go run ./examples/order-consumer -namesrv 127.0.0.1:9876 -store mysql://user:password@127.0.0.1:3306/orders -janitor '@every 30s'
//
// The first one needs no server: the broker is rmqtest's, in the same process, and so is the state table.
//
// What a program of yours would have is the function consume, which wires store, wrapper, consumer and janitor together, and business.go, the
// listener. The rest starts a broker (inprocess.go), makes topics, produces orders and keeps count.
//
// Several processes are one consumer group if they have the same -topic, -group, -store and -ledger; all but the one that produces have -member.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage"
)

// consume starts the wrapped consumer, and the janitor beside it if there is to be one; stop ends them, in the order that loses least.
func consume(ctx context.Context, cfg *config, books *ledger, counts *tally) (stop func() error, err error) {
	if cfg.migrate {
		if err := storage.Migrate(ctx, cfg.store); err != nil {
			return nil, fmt.Errorf("-store: %w", err)
		}
	}
	store, err := storage.Open(ctx, cfg.store)
	if err != nil {
		return nil, fmt.Errorf("-store: %w", err)
	}
	defer func() {
		if err != nil {
			_ = store.Close()
		}
	}()
	wrapping := rmqdedup.Config{
		Key:               cfg.keyFunc(), // rmqdedup.JSONField("order.id"), for instance
		Mode:              cfg.mode,
		Lease:             cfg.lease,
		MaxReconsumeTimes: cfg.maxReconsumeTimes(),
		DelayLevels:       cfg.delayLevels,
		Observer:          rmqdedup.Observers(counts, rmqdedup.Log(nil)),
	}
	dedup, err := rmqdedup.New(store, cfg.group, wrapping)
	if err != nil {
		return nil, &usageError{err}
	}
	clean, err := cfg.newJanitor(store, wrapping, counts)
	if err != nil {
		return nil, &usageError{err}
	}
	c, err := rocketmq.NewPushConsumer(append(dedup.ConsumerOptions(),
		consumer.WithNameServer(cfg.namesrv),
		consumer.WithInstance(cfg.instance("consumer")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), // or what was sent before the group's first start is skipped
		consumer.WithConsumeGoroutineNums(cfg.handlers),
		consumer.WithConsumeMessageBatchMaxSize(cfg.batch),
		consumer.WithPullBatchSize(int32(max(cfg.batch, 32))), //nolint:gosec // at most 1024
	)...)
	if err != nil {
		return nil, err
	}
	shop := &business{cfg: cfg, books: books}
	if err := c.Subscribe(cfg.topic, consumer.MessageSelector{}, dedup.Wrap(shop.handle)); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("starting the consumer: %w", err)
	}
	cleaning, stopCleaning := context.WithCancel(context.Background())
	cleaned := make(chan error, 1)
	go func() { cleaned <- clean(cleaning) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
		defer cancel()
		err := dedup.Shutdown(ctx, c)
		stopCleaning()
		return errors.Join(err, <-cleaned, store.Close()) // what the janitor does has to have ended before the store is closed
	}, nil
}

// newJanitor returns what runs the janitor until its context ends, or does nothing if there is to be none.
func (c *config) newJanitor(store rmqdedup.Store, consumer rmqdedup.Config, counts *tally) (run func(context.Context) error, err error) {
	if c.janitor == "" {
		// The store in memory drops what is past its time by itself, though it can be swept too.
		_, keeps := rmqdedup.Find[rmqdedup.Sweeper](store)
		c.uncleaned = keeps && !c.inMemory()
		return func(context.Context) error { return nil }, nil
	}
	j, err := janitor.New(store, janitor.Config{
		Schedule:  c.janitor,
		Consumers: map[string]rmqdedup.Config{c.group: consumer}, // so that it says whether it comes by in time
		Observer:  counts,
		Logger:    c.janitorLog,
	})
	if err != nil {
		return nil, fmt.Errorf("-janitor: %w", err)
	}
	return j.Run, nil
}

// shutdownTime is what handlers that run are given to finish.
const shutdownTime = 15 * time.Second

// Exit statuses.
const (
	exitGood        = 0
	exitBad         = 1 // an order succeeded twice or is lost, or something broke
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args)
	if err == nil && cfg.help {
		usage(stdout)
		return exitGood
	}
	if err == nil {
		setLogs(cfg, stderr)
		var r *report
		if r, err = work(cfg, stdout, stderr); r != nil {
			r.print(stdout)
			if cfg.inProcess && !r.interrupted {
				cfg.next(stdout)
			}
		}
		if err == nil {
			return r.status()
		}
	}
	fmt.Fprintf(stderr, "order-consumer: %v\n", err)
	if errors.As(err, new(*usageError)) {
		return exitUsage
	}
	return exitBad
}

// A usageError is one that other flags would mend.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// work does what the flags say, until it is done, -timeout has passed or a signal comes. The report is nil if it did not come to consuming.
func work(cfg *config, stdout, stderr io.Writer) (*report, error) {
	signals, endSignals := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer endSignals()
	ctx, cancel := context.WithTimeout(signals, cfg.timeout)
	defer cancel()

	if cfg.inProcess {
		stopBroker, err := cfg.startBroker()
		if err != nil {
			return nil, err
		}
		defer stopBroker()
	}
	books, err := openLedger(cfg.ledger)
	if err != nil {
		return nil, err
	}
	defer books.close()
	topics, err := makeTopics(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer topics.close()
	counts := &tally{books: books}
	stop, err := consume(ctx, cfg, books, counts)
	if err != nil {
		topics.remove()
		return nil, err
	}
	fmt.Fprint(stdout, cfg.describe())

	r := &report{cfg: cfg, began: time.Now()}
	if cfg.member {
		watch(ctx, counts, stderr)
	} else {
		r.orders = makeOrders(cfg)
		err = produceAndWait(ctx, cfg, r.orders, books, counts, stderr)
	}
	r.interrupted, r.timedOut = signals.Err() != nil, ctx.Err() != nil
	endSignals() // a second one ends the process at once
	err = errors.Join(err, cfg.shutDown(cfg.group, "consumer", stop), r.fill(books, counts))
	if err == nil && r.good() && r.deadLettered == 0 {
		topics.remove()
	}
	return r, err
}
