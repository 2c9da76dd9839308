package rmqdedup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Why a handler's context was cancelled; match context.Cause(ctx) with errors.Is.
var (
	// ErrClaimLost is matched by every [LostClaimError].
	ErrClaimLost = errors.New("rmqdedup: the claim is lost")
	// ErrLeasePassed says that the lease ended by this process's own clock before a renewal succeeded: the store could not be reached in time.
	ErrLeasePassed = errors.New("the lease has passed without a renewal that succeeded")
	// ErrTakenAway says that the store no longer has the claim: it was taken over, completed by another owner, or removed.
	ErrTakenAway = errors.New("the store no longer has the claim")
	// ErrDraining says that the wrapper was shut down and the time given for that is over.
	ErrDraining = errors.New("rmqdedup: the wrapper is shutting down and its time is over")
)

// A LostClaimError is the cause of a handler's cancelled context when a claim of its call was lost: another delivery may run the
// same work from now on. Stop, if stopping is possible; whatever the handler returns, each key is settled by its own state.
type LostClaimError struct {
	Keys []Key
	Why  error // ErrLeasePassed or ErrTakenAway
}

// Error names the keys.
func (e *LostClaimError) Error() string {
	names := make([]string, len(e.Keys))
	for i, k := range e.Keys {
		names[i] = k.String()
	}
	return fmt.Sprintf("%v (%s): %v", ErrClaimLost, strings.Join(names, ", "), e.Why)
}

// Is matches [ErrClaimLost].
func (e *LostClaimError) Is(target error) bool { return target == ErrClaimLost }

// Unwrap returns Why.
func (e *LostClaimError) Unwrap() error { return e.Why }

// A Claim is what a handler holds on one of the messages that it was given.
type Claim struct {
	Key       Key
	Owner     Owner // zero if the message runs unprotected
	MessageID string
	Attempt   int  // the message's ReconsumeTimes: 0 at the first delivery
	Takeover  bool // the claim was taken over from an owner that did not finish: the work may be done in part
}

// Claims returns the claims of the call that ctx belongs to, one a message and in the same order, and nil
// outside of a handler and once it has returned.
func Claims(ctx context.Context) []Claim {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended { // the handler left a goroutine behind, and its claims are being settled
		return nil
	}
	claims := make([]Claim, len(c.members))
	for i, m := range c.members {
		claims[i] = Claim{Key: m.req.Key, MessageID: m.req.MessageID, Attempt: m.req.Attempt, Takeover: m.takenOver}
		if m.state == held {
			claims[i].Owner = m.req.Owner
		}
	}
	return claims
}

// A call is one call of a handler, and the context that the handler is given: by it, [Claims] finds the call.
type call struct {
	context.Context
	members []*member // one a message
	msgs    []*primitive.MessageExt
	cancel  context.CancelCauseFunc

	mu        sync.Mutex
	cancelled error // by us, and why
	ended     bool  // the handler has returned

	// Room for the usual call, of one message.
	oneMember [1]*member
	oneMsg    [1]*primitive.MessageExt
}

// cancelByUs cancels the handler's context. The first cause stays.
func (c *call) cancelByUs(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled == nil {
		c.cancelled = why
		c.cancel(why)
	}
}

// end says that the handler has returned.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

func (c *call) cancelledByUs() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

type callKey struct{}

// Value implements [context.Context].
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}
