package rmqdedup

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// A Store remembers the state of every key: absent, CONSUMING with an owner and a deadline, or DONE.
// It decides nothing else; what an answer means for a message is the wrapper's business.
//
// # For those who implement one
//
// Run the suite in storagetest: it holds every rule below, on the real server.
//
// Every operation takes any number of requests and answers each of them, in order: either the returned slice is as
// long as reqs and the error is nil, or the error is not nil and says that nothing is known about any of them. What
// concerns one request alone (a cluster's node is down, a value is too long) goes into that request's [Answer.Err] and
// leaves its neighbours alone; a request that is refused as bad leaves its key as it was. A call should cost one round trip, whatever its length. An empty call answers with an
// empty slice and touches nothing. A key may stand in one call more than once: the requests then act one after the other, in
// order, so they cannot share a statement that applies them together. The slice and what it holds belong to the caller
// and are not kept or changed after the call returns.
//
// Each request is atomic on its own: between reading a record and changing it nobody else changes it. Of any number of
// concurrent Acquires of one key exactly one is answered [Claimed] or [TakenOver]. An operation that loses a race in the server (a
// deadlock, a lock time-out) is tried again by the store, a bounded number of times, and then fails; it never answers
// "claimed" without a record that says so.
//
// Deadlines are set and judged by the store's clock alone, never by the caller's. Only what a record says counts: a claim's grace is
// written with the claim, and readers judge by that.
//
// Operations honour their context, and have a time limit of their own as well (a few seconds), since the wrapper passes contexts without
// a deadline. A context that ends makes the call fail with an error that wraps the context's; what was sent may still take effect.
//
// A store does not retry what the server refused, does not log, and counts nothing: decorators do. All methods may be called
// concurrently. A store that has something to close is an io.Closer as well; closing is its opener's business, never the wrapper's. After that every operation
// fails with [ErrClosed].
//
// What is optional is an interface of its own ([Sweeper], [Lister], [Resolver]), found with [Find] on the store or on what it wraps.
type Store interface {
	// Acquire claims each request's key for its Owner until Lease from now.
	//
	//	absent, or DONE past its retention    Claimed
	//	CONSUMING, the same owner             Claimed, or TakenOver if it was so before: the deadline and
	//	                                      grace are set anew, so that the retry of a lost reply is no duplicate
	//	CONSUMING, another's, deadline ahead  InFlight, with the time Left
	//	CONSUMING, another's, deadline past   TakenOver (past deadline + grace: Claimed is as good)
	//	DONE                                  Done
	//
	// It writes MessageID, Attempt and Fingerprint into the record, and as much of the key's parts as it keeps.
	// TakenOver, InFlight and Done carry the [Record] that was found, where there was one.
	Acquire(ctx context.Context, reqs []Request) ([]Answer, error)

	// Renew sets the deadline of each Owner's claim to Lease from now, and its grace: Applied, even when the deadline had
	// passed, as long as nobody took the key over. On everything else it changes nothing and answers Lost.
	Renew(ctx context.Context, reqs []Request) ([]Answer, error)

	// Complete makes each key DONE for Retention from now, whatever it was before: Applied on the Owner's
	// claim, its deadline past or not; Done where it was DONE already, which stays as it is; Lost on another's claim or none at all (the
	// key is DONE all the same: the work was done).
	Complete(ctx context.Context, reqs []Request) ([]Answer, error)

	// Release removes each Owner's claim: Applied. On everything else it changes nothing and answers Lost.
	Release(ctx context.Context, reqs []Request) ([]Answer, error)

	// Abandon ends each Owner's claim whose deadline is ahead, without forgetting it: its deadline becomes now, and its owner a fresh one that nobody
	// holds, so that the claim can be taken over but neither renewed nor released: Applied. On everything else, a claim past its deadline
	// among it, it changes nothing and answers Lost.
	// A claim without grace may as well be removed.
	Abandon(ctx context.Context, reqs []Request) ([]Answer, error)

	// Lookup reads each key: Absent, InFlight (with the time Left), Orphan (the deadline has passed, the grace has not) or Done, all but
	// the first with their Record. It changes nothing.
	Lookup(ctx context.Context, reqs []Request) ([]Answer, error)

	// Forget removes each key for an operator: Applied on an orphan or DONE, Absent where there is
	// nothing, InFlight (and refused) on a claim whose deadline is ahead.
	Forget(ctx context.Context, reqs []Request) ([]Answer, error)
}

// A Request is one element of a call to a [Store]. Every operation reads Key; Owner is read by all but Lookup and Forget.
type Request struct {
	Key   Key
	Owner Owner

	// Lease is how long a claim lives unless renewed, and Grace how long after that it stays to be seen as an orphan (0: it
	// need not). Read by Acquire and Renew. A Lease of zero or less, or below the store's resolution, is an error of that request, as is a negative Grace.
	Lease, Grace time.Duration

	// Retention is how long DONE stays. Read by Complete. Zero or less, or below the store's resolution, is an error of that request.
	Retention time.Duration

	// What the record says of the message that made it. Read by Acquire and Complete.
	MessageID   string
	Attempt     int    // ReconsumeTimes: 0 at the first delivery
	Fingerprint uint64 // of the body, see [Fingerprint]
}

// An Answer says what became of one [Request].
type Answer struct {
	Outcome Outcome

	// Left is the time until the deadline, for InFlight; above zero.
	Left time.Duration

	// Record is what was found, where the outcome says so; nil otherwise.
	Record *Record

	// Err, where it is not nil, says why nothing is known of this request. The other fields are then zero.
	Err error
}

// A Record is what a store keeps for one key.
type Record struct {
	// Key is complete as far as its digest goes. Its parts and value are there as far as the store keeps them (up to 1 KiB in all, see
	// [Key.Readable]); Acquire, which has the key at hand, may leave Key zero.
	Key Key

	Done  bool
	Owner Owner         // who claimed it, or finished it
	Grace time.Duration // of a claim

	MessageID   string
	Attempt     int
	Fingerprint uint64

	// DoneAt is when the key became DONE, and Until when its deadline (a claim) or its retention (DONE) ends, by the store's clock.
	// Zero where the store does not keep it.
	DoneAt, Until time.Time
}

// An Outcome is a store's verdict on one request. The zero Outcome is none at all: an answer that has it carries an error.
type Outcome uint8

// The outcomes. Which operation gives which is said at [Store].
const (
	Claimed   Outcome = iota + 1 // the key is the requester's, and was nobody's
	TakenOver                    // the key is the requester's, taken over from an owner whose deadline had passed
	InFlight                     // another owner's claim, its deadline ahead
	Orphan                       // a claim whose deadline has passed, within its grace
	Done                         // DONE, within its retention
	Absent                       // nothing there
	Applied                      // done as asked
	Lost                         // the claim is not, or no longer, the requester's
)

var outcomeNames = [...]string{"no outcome", "claimed", "taken over", "in flight", "orphan", "done", "absent", "applied", "lost"}

// String returns the outcome in the field's words, such as "taken over".
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Errors of stores. They come wrapped; match them with errors.Is.
var (
	// ErrClosed is the error of every operation on a store that has been closed.
	ErrClosed = errors.New("rmqdedup: the store is closed")

	// ErrFull is the error of a claim, or of a DONE for a key that it no longer holds, for which a bounded store has no room. Nothing that is still
	// needed is ever evicted.
	ErrFull = errors.New("rmqdedup: the store is full")

	// ErrLocked is the error of a request whose record a transaction of somebody else holds locked, in a store that knows such: it
	// was not acted upon, and may be tried again. An Acquire is answered [InFlight] instead.
	ErrLocked = errors.New("rmqdedup: the record is locked")

	// ErrBadRequest is the error of a request that no store can serve, such as a lease of zero.
	ErrBadRequest = errors.New("rmqdedup: bad request")
)

// A Sweeper is a store that needs a janitor: expired claims stay in it until they are taken over or cleared. The two steps are
// apart so that a checker can be asked in between.
type Sweeper interface {
	// Expired returns at most limit claims that expired longer ago than their grace, and those that are
	// within their grace as well if orphans is set. The ones that expired first come first.
	Expired(ctx context.Context, limit int, orphans bool) ([]Record, error)

	// Clear removes each claim that has expired and whose owner and deadline are still as they were read, and returns how many those were.
	Clear(ctx context.Context, records []Record) (int, error)

	// Purge removes at most limit keys that are DONE past their retention, and returns how many those were.
	Purge(ctx context.Context, limit int) (int, error)
}

// A Lister is a store that can list what it holds of one consumer group, in no particular order. The listing is no snapshot: a record that
// changes meanwhile may be seen in either state, or not at all. It ends after the first error.
type Lister interface {
	List(ctx context.Context, group string) iter.Seq2[Record, error]
}

// A Resolver is a store whose clock has a resolution that is worth telling: leases and retentions below it are refused.
// [New] takes a store without it to resolve one millisecond.
type Resolver interface {
	Resolution() time.Duration
}

// Find returns the first T among s and the stores that it wraps (those with a method Unwrap() Store, all the way
// down), and whether there is one.
func Find[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		u, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = u.Unwrap()
	}
	var none T
	return none, false
}
