package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage"
)

// quiet has the library tell no more than warnings, and the client no more than errors: it warns, in long lines, whenever its cache is full, and of every
// message in it when it is shut down.
func quiet() {
	rlog.SetLogLevel("error")
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// consumerMain is the process that consumes: it reads an order, and writes what it found. It stops when its input ends.
func consumerMain(in io.Reader, out io.Writer) int {
	quiet()
	answer := json.NewEncoder(out)
	var o order
	input := json.NewDecoder(in)
	err := input.Decode(&o)
	if err == nil {
		told, tell := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, in)
			tell()
		}()
		t := newTally(&o)
		err = o.run(told, t, func() error { return answer.Encode(consumption{Ready: true}) })
		if err == nil {
			err = answer.Encode(t.consumption())
		}
	}
	if err != nil {
		_ = answer.Encode(consumption{Err: err.Error()})
	}
	return exitGood // the answer says what has failed
}

// Opening the store, and shutting down, are far quicker.
const openTime, shutdownTime = 20 * time.Second, 20 * time.Second

// run consumes until all is run that was ordered, or it is told to stop, or something fails.
func (o *order) run(told context.Context, t *tally, ready func() error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	options := []consumer.Option{consumer.WithGroupName(o.Group)}
	listener := t.handle
	shutdown := func(_ context.Context, c rocketmq.PushConsumer) error { return c.Shutdown() }
	if o.Store != "" {
		store, err := storage.Open(ctx, o.Store)
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		d, err := rmqdedup.New(rmqdedup.Intercept(store, t.timed), o.Group, rmqdedup.Config{Key: rmqdedup.Keys, Observer: watcher{tally: t}})
		if err != nil {
			return err
		}
		options, listener = d.ConsumerOptions(), d.Wrap(t.handle)
		shutdown = func(ctx context.Context, c rocketmq.PushConsumer) error { return d.Shutdown(ctx, c) }
	}
	c, err := rocketmq.NewPushConsumer(append(options,
		consumer.WithNameServer(primitive.NamesrvAddr{o.NameServer}),
		consumer.WithInstance(o.Group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeGoroutineNums(o.Handlers),
		consumer.WithConsumeMessageBatchMaxSize(o.Batch),
	)...)
	if err != nil {
		return err
	}
	if err := c.Subscribe(o.Topic, consumer.MessageSelector{}, listener); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	err = t.wait(told, ready)
	ctx, cancelShutdown := context.WithTimeout(context.Background(), shutdownTime)
	defer cancelShutdown()
	return errors.Join(err, shutdown(ctx, c))
}

// A watcher has everything fail the measurement that is not to happen in it.
type watcher struct {
	rmqdedup.NopObserver
	tally *tally
}

// Event is told of everything but the usual course of messages.
func (w watcher) Event(_ context.Context, e rmqdedup.Event) {
	switch e.Kind {
	case rmqdedup.EventConfigured, rmqdedup.EventWarning:
	default:
		err := fmt.Errorf("the wrapper tells of %q", e.Kind)
		if e.Err != nil {
			err = fmt.Errorf("%w: %w", err, e.Err)
		}
		w.tally.fail(err)
	}
}
