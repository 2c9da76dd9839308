package main

import (
	"context"
	"fmt"
	"time"
)

// A listener is consumed with again and again, each time by a new group, to which all messages of the topic are new.
type listener struct {
	broker    *broker
	order     order
	perSecond float64 // as it was last time, from which the number of messages is worked out
}

// mostPerSecond is more than a handler gets through that does nothing.
const mostPerSecond = 250_000

// capacity is more messages than such a listener gets through in that time.
func (o *order) capacity(d time.Duration) int {
	perSecond := float64(mostPerSecond)
	if o.Work > 0 {
		perSecond = min(perSecond, float64(o.Handlers)/o.Work.Seconds())
	}
	return int(1.1*perSecond*(o.Lead+d).Seconds()) + 10*o.stride()
}

// stride is what all handlers run at once. They start together, so a measurement is to be a multiple of it.
func (o *order) stride() int { return o.Handlers * o.Batch }

// measure consumes for about as long as it is told.
func (l *listener) measure(ctx context.Context, d time.Duration) (figures, error) {
	r, err := l.consume(ctx, d)
	if err != nil {
		return nil, err
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	f := figures{
		messagesPerSecond:   l.perSecond,
		cpuMicroseconds:     micros(r.CPU) / float64(r.Runs),
		handlerMicroseconds: micros(r.Handler),
	}
	if l.order.Store != "" {
		f[claimMicroseconds], f[completeMicroseconds] = micros(r.Claim), micros(r.Complete)
	}
	return f, nil
}

// consume finds the rate first, if it is not known from the last time.
func (l *listener) consume(ctx context.Context, d time.Duration) (consumption, error) {
	l.order.Lead, l.order.Most = d/2, 2*d
	if err := l.topic(ctx, d); err != nil {
		return consumption{}, err
	}
	if l.perSecond == 0 {
		if r, err := l.once(ctx, l.order.Messages); err != nil {
			return r, err
		}
	}
	return l.once(ctx, int(l.perSecond*d.Seconds()))
}

// topic sees to it that there are enough messages.
func (l *listener) topic(ctx context.Context, d time.Duration) (err error) {
	n := l.order.capacity(d)
	if l.order.Messages >= n {
		return nil
	}
	if l.order.Topic, l.order.Messages, err = l.broker.filled(ctx, n); err != nil {
		return fmt.Errorf("filling the topic: %w", err)
	}
	return nil
}

// once consumes n messages, or a few more.
func (l *listener) once(ctx context.Context, n int) (consumption, error) {
	o := l.order
	o.Group = l.broker.newGroup()
	o.Count = max(1, n/o.stride()) * o.stride()
	r, err := o.consume(ctx)
	if err == nil {
		l.perSecond = float64(r.Runs) / r.Elapsed.Seconds()
	}
	return r, err
}

// filled returns a topic of at least n messages.
func (b *broker) filled(ctx context.Context, n int) (topic string, messages int, err error) {
	if b.fullTopic != "" && b.fullWith >= n {
		return b.fullTopic, b.fullWith, nil
	}
	if b.fullTopic, err = b.newTopic(ctx); err != nil {
		return "", 0, err
	}
	b.fullWith = n
	return b.fullTopic, n, b.fill(ctx, b.fullTopic, n)
}
