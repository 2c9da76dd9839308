package main

import (
	"context"
	"fmt"
	"time"
)

// units of what is measured on the broker
const (
	cpuMicroseconds      = "cpu-us/msg"
	handlerMicroseconds  = "handler-us"
	claimMicroseconds    = "claim-us"
	completeMicroseconds = "complete-us"
)

// consumers have so many handlers.
const consumerHandlers = 20

// An endToEnd compares a wrapped listener with the plain one, on a real broker.
type endToEnd struct {
	store string
	batch int           // messages a call
	work  time.Duration // of the handler, a message
	rule  rule
	cpu   float64 // if not 0: the wrapper's part in the processor time of a message, in microseconds, that is not to be exceeded
}

// atLeastOfModel is what is to be reached of T/(T + claim + complete).
const atLeastOfModel = 0.95

func (c endToEnd) cell() cell {
	rows := []row{faster("messages : plain listener", messagesPerSecond, c.rule)}
	if c.work > 0 {
		rows = append(rows, row{"of T/(T + claim + complete)", messagesPerSecond, ofModel, atLeast(atLeastOfModel)})
	}
	if c.cpu > 0 {
		rows = append(rows, row{
			"us of CPU above plain", cpuMicroseconds,
			func(reference, product figures) float64 { return product[cpuMicroseconds] - reference[cpuMicroseconds] }, notSurelyAbove(c.cpu),
		})
	}
	return cell{fmt.Sprintf("e2e/store=%s/batch=%d/work=%v", c.store, c.batch, c.work), c.open, rows}
}

// ofModel is the ratio of the two listeners over the one that would come of a handler which takes as long as the plain listener's, between a claim and a
// completion that take as long as they did.
func ofModel(reference, product figures) float64 {
	t := reference[handlerMicroseconds]
	model := t / (t + product[claimMicroseconds] + product[completeMicroseconds])
	return product[messagesPerSecond] / reference[messagesPerSecond] / model
}

func (c endToEnd) open(ctx context.Context, s *stage) (pair, error) {
	t, err := newStateTable(ctx, s, c.store)
	if err != nil {
		return pair{}, err
	}
	b, err := newBroker(ctx, s)
	if err != nil {
		return pair{}, err
	}
	plain := &listener{broker: b, order: order{
		NameServer: b.nameServer, Handlers: consumerHandlers, Batch: c.batch, Work: c.work,
	}}
	wrapped := &listener{broker: b, order: plain.order}
	wrapped.order.Store = t.url()
	return pair{plain.measure, wrapped.measure}, nil
}
