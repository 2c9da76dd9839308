package rmqdedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// A Handler is a listener: the type that the client's PushConsumer.Subscribe takes.
type Handler = func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// A Dedup makes the listeners of one consumer group idempotent: it decides what becomes of a message, from what a [Store] remembers. Make it
// with [New], one a consumer, and end it with [Dedup.Shutdown]. It is safe for concurrent use.
type Dedup struct {
	store     Store
	group     string
	fullGroup string // with the namespace
	cfg       Config
	budget    Budget

	keeper  *keeper
	pending *pending
	drain   *drain
}

// New returns a Dedup for a consumer group on a store. The store is the caller's: it is never closed by the Dedup, and may
// serve any number of them, of other groups too.
//
// A configuration that cannot work is refused with all its problems at once, each with the setting, the figures and what to do; one
// that is likely to be wrong is told to the observer ([EventWarning]).
func New(store Store, group string, cfg Config) (*Dedup, error) {
	cfg = cfg.withDefaults()
	var problems []error
	resolution := time.Millisecond
	if store == nil {
		problems = append(problems, errors.New("rmqdedup: the store is nil; open one with storage.Open, or make it with New of storage/memory or storage/redis"))
	} else if r, ok := Find[Resolver](store); ok {
		resolution = r.Resolution()
	}
	warnings, err := cfg.validate(group, resolution)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	d := &Dedup{store: store, group: group, fullGroup: cfg.fullGroup(group), cfg: cfg, budget: cfg.budget()}
	d.keeper = newKeeper(d)
	d.pending = newPending(d)
	d.drain = newDrain()

	ctx := context.Background()
	for _, w := range warnings {
		d.event(ctx, Event{Kind: EventWarning, Detail: w})
	}
	d.event(ctx, Event{Kind: EventConfigured, Detail: d.describe()})
	return d, nil
}

// describe is what New tells of the configuration.
func (d *Dedup) describe() string {
	renewed := fmt.Sprintf("renewed every %v", d.cfg.Lease/renewShare)
	if d.cfg.NoRenewal {
		renewed = "not renewed"
	}
	attempts := "attempts without a limit"
	if d.budget.Attempts > 0 {
		attempts = fmt.Sprintf("%d attempts", d.budget.Attempts)
	}
	s := fmt.Sprintf("%v consumer, %s over %v; lease %v, %s; retention %v; an outage of the store of up to %v costs no message its place",
		d.cfg.Mode, attempts, d.budget.Outlast, d.cfg.Lease, renewed, d.cfg.Retention, d.budget.Outage)
	if d.cfg.Shadow {
		s += "; shadow mode: nothing is suppressed"
	}
	return s
}

// Wrap returns a listener that hands a message to handle only when it is claimed, and answers for it
// otherwise; give it to Subscribe in place of handle. Several listeners of one consumer may be wrapped by one Dedup.
//
// In the handler's context, [Claims] finds the claims, and the context is cancelled, with a cause, when one is lost ([LostClaimError]) or when
// a shutdown runs out of time ([ErrDraining]). It panics if handle is nil.
func (d *Dedup) Wrap(handle Handler) Handler {
	if handle == nil {
		panic("rmqdedup: Wrap: the handler is nil")
	}
	return func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if len(msgs) == 0 {
			return consumer.ConsumeSuccess, nil // nothing to do is done; the client never does it
		}
		return d.deliver(ctx, handle, msgs)
	}
}

func (d *Dedup) event(ctx context.Context, e Event) {
	e.Group = d.fullGroup
	e.Shadow = d.cfg.Shadow
	d.cfg.Observer.Event(ctx, e)
}

// do calls the store, and turns an answer of the wrong length into an error.
func (d *Dedup) do(ctx context.Context, op Op, reqs []Request) ([]Answer, error) {
	answers, err := Do(ctx, d.store, op, reqs)
	if err != nil {
		return nil, err
	}
	if len(answers) != len(reqs) {
		return nil, fmt.Errorf("rmqdedup: the store %T answered %d of %d requests", d.store, len(answers), len(reqs))
	}
	return answers, nil
}
