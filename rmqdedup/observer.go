package rmqdedup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// An Observer hears of every delivery and of what happens to its messages: it logs, counts or traces. Its methods are called on the path of
// the message, many at once, and must neither block nor change what they are given. Embed [NopObserver], so that a method added later does not break yours.
type Observer interface {
	// Begin is called when a delivery reaches the wrapper. The context it returns is the parent of the handler's, so a span that it starts is the
	// parent of the handler's spans; return ctx if there is nothing to add.
	Begin(ctx context.Context, d Delivery) context.Context
	// End is called when the delivery is answered, with the context that Begin returned.
	End(ctx context.Context, d Delivery, r Result)
	// Event is called when something happens that is worth telling one by one.
	Event(ctx context.Context, e Event)
}

// A Delivery is one call of the listener by the client.
type Delivery struct {
	Group    string // with its namespace
	Mode     Mode   // as the client called, which may differ from the Config's
	Messages []*primitive.MessageExt
}

// A Result is how a delivery ended. The counts are of messages; one may be counted more than once, when it was in flight first
// and ran later, say.
type Result struct {
	Answer consumer.ConsumeResult // what the client was told
	Err    error                  // the handler's error, if it returned one
	Held   bool                   // let go after a drain: the client throws the answer away

	Ran         int // handed to the handler, unprotected ones included
	Failed      int // of these, those whose handler failed or panicked
	Suppressed  int // acknowledged unrun: done before, or the same key as another message of this delivery
	InFlight    int // found in flight elsewhere
	Unreachable int // not claimed since the store did not answer
	Unprotected int // run without a claim
	TakenOver   int // claimed from an owner whose lease had passed

	Elapsed time.Duration // from Begin to End
}

// An EventKind says what happened.
type EventKind uint8

// The kinds of events. Behind each stands which fields of the [Event] are set beside Kind; Key and Message are, wherever one message is
// concerned.
const (
	// EventSuppressed: the key is DONE; the message is acknowledged without a run. Record.
	EventSuppressed EventKind = iota + 1
	// EventRepeated: another message of the same delivery has the same key; it shares that one's run.
	EventRepeated
	// EventInFlight: the key is claimed by another owner. Record, Left.
	EventInFlight
	// EventTakenOver: the key was claimed from an owner whose lease had passed. Record, Owner.
	// A store that forgets a claim at its deadline (Redis, and the memory store) cannot tell it from a key that was free: there it
	// is told for claims with a grace only, and the wrapper gives none.
	EventTakenOver
	// EventBodyDiffers: a record of the same key was made by a message with another body, which usually means that
	// the key function picks too little. It is told beside the other event. Record.
	EventBodyDiffers
	// EventNoKey: the key function had no value. Err.
	EventNoKey
	// EventClaimLost: a claim was lost while its handler ran or its DONE was pending. Owner, Err.
	EventClaimLost
	// EventUnprotected: the handler runs without a claim. Err where the store did not answer.
	EventUnprotected
	// EventHeld: the store did not answer for the message, and the delivery waits in the listener. Once a delivery. Err.
	EventHeld
	// EventStoreError: an operation on the store failed. Op, Err.
	EventStoreError
	// EventPanic: the handler panicked; the run failed. Err (a [*PanicError]).
	EventPanic
	// EventSuccessWithError: the handler returned success and an error; the result decides. Err.
	EventSuccessWithError
	// EventWritePending: a completion or release failed and will be tried again in the background. Op, Owner, Err.
	EventWritePending
	// EventWriteLanded: a pending write took effect. Op, Owner.
	EventWriteLanded
	// EventWriteDropped: a pending write was given up, at the bound or at the end of a drain. Of a completion it means that
	// the message may run again. Op, Owner, Err.
	EventWriteDropped
	// EventLastAttempt: the message is at its last attempt before the dead-letter queue, and its delivery waits rather than be answered
	// retry. Once a delivery.
	EventLastAttempt
	// EventLastAttemptUnsettled: that wait ended without an outcome; the message goes to the dead-letter queue though its handler did not refuse it. Err.
	EventLastAttemptUnsettled
	// EventBatchMateDeadLettered: the message, at its last attempt, goes to the dead-letter queue since the client sends the whole
	// batch back and a batch-mate was refused. It may even be DONE.
	EventBatchMateDeadLettered
	// EventContradiction: the delivery is not what the Config says of the consumer. Err. Logged once a kind by [Log].
	EventContradiction
	// EventAfterClose: a delivery came after the wrapper was closed; it is answered retry. Shut the consumer down first ([Dedup.Shutdown]).
	EventAfterClose
	// EventConfigured: New made a wrapper. Detail has the figures.
	EventConfigured
	// EventWarning: New made a wrapper with a setting that is likely to be wrong. Detail has the figures.
	EventWarning
)

var eventNames = [...]string{
	"no event", "suppressed", "repeated", "in flight", "taken over", "body differs", "no key", "claim lost", "unprotected", "held", "store error",
	"panic", "success with error", "write pending", "write landed", "write dropped", "last attempt", "last attempt unsettled",
	"batch-mate dead-lettered", "contradiction", "after close", "configured", "warning",
}

// String returns the kind in words, such as "taken over".
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// An Event tells one thing that happened. Which fields are set is said at each [EventKind].
type Event struct {
	Kind    EventKind
	Group   string
	Key     Key
	Message *primitive.MessageExt
	Owner   Owner
	Record  *Record
	Left    time.Duration
	Op      Op
	Err     error
	Detail  string
	Shadow  bool // under Config.Shadow: what is told as suppressed or in flight ran all the same
}

// NopObserver observes nothing. Embed it to implement only some of [Observer].
type NopObserver struct{}

// Begin returns ctx.
func (NopObserver) Begin(ctx context.Context, _ Delivery) context.Context { return ctx }

// End does nothing.
func (NopObserver) End(context.Context, Delivery, Result) {}

// Event does nothing.
func (NopObserver) Event(context.Context, Event) {}

// Observers returns an observer that passes everything on to each of list: Begin and Event in order, End in the
// reverse order, so that the first one is the outermost.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Begin(ctx context.Context, d Delivery) context.Context {
	for _, each := range o {
		ctx = each.Begin(ctx, d)
	}
	return ctx
}

func (o observers) End(ctx context.Context, d Delivery, r Result) {
	for _, each := range slices.Backward(o) {
		each.End(ctx, d, r)
	}
}

func (o observers) Event(ctx context.Context, e Event) {
	for _, each := range o {
		each.Event(ctx, e)
	}
}
