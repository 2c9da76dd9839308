package rmqtest

import (
	"context"
	"slices"
	"time"
)

// An Action says what becomes of one request. The zero value is the ordinary course: the work is done, then answered.
// A hook can go against the client's expectations with it as a broken broker would; some answers make the client hang,
// spin or die.
type Action struct {
	Before Pause   // before the work
	Skip   bool    // the work is not done; the answer is OK with nothing in it, unless Answer says otherwise
	After  Pause   // between the work and the answer
	Answer *Answer // goes out in place of the work's answer
	Silent bool    // no answer goes out: the client waits until its time is over
	Cut    bool    // the connection is closed in place of the answer
}

// An Answer is one of a hook's own making.
type Answer struct {
	Status Status
	Remark string
	Fields map[string]string
	Body   []byte
}

// A Pause ends after For, and not before Until is closed if Until is not nil. It ends early, and its request is
// forgotten, when the connection or the broker is closed.
type Pause struct {
	For   time.Duration
	Until <-chan struct{}
}

func (p Pause) wait(ctx context.Context) (ok bool) {
	if p == (Pause{}) {
		return true
	}
	over := time.NewTimer(p.For)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
		return false
	}
	if p.Until != nil {
		select {
		case <-p.Until:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Refuse is the action that does no work and answers with a status.
func Refuse(status Status) Action {
	return Action{Skip: true, Answer: &Answer{Status: status, Remark: "refused on demand"}}
}

type hook struct{ decide func(*Request) Action }

// Hook has every request shown to decide, until remove is called. Of several hooks the first one that answers with
// anything but the zero Action decides.
//
// The requests of one connection are worked on in the order in which they came, except for those with a Pause, and
// decide runs in that order, with those of other connections at the same time. It may call the broker's methods, but
// must not block; what is to take time is a Pause.
func (b *Broker) Hook(decide func(*Request) Action) (remove func()) {
	h := &hook{decide}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks = append(slices.Clone(b.hooks), h)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.hooks = slices.DeleteFunc(slices.Clone(b.hooks), func(other *hook) bool { return other == h })
	}
}

// Fault lets the action befall the next n requests with one of the codes, or with n < 0 all of them until it is lifted.
func (b *Broker) Fault(n int, action Action, codes ...Code) (lift func()) {
	return b.Hook(func(r *Request) Action {
		if !slices.Contains(codes, r.Code) {
			return Action{}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if n == 0 {
			return Action{}
		}
		n--
		return action
	})
}

// keepRequests is how many of the latest requests stay to be seen, at least.
const keepRequests = 10_000

// decide notes the request and asks the hooks.
func (b *Broker) decide(r *Request) Action {
	b.mu.Lock()
	b.counts[r.Code]++
	if b.requests = append(b.requests, r); len(b.requests) > 2*keepRequests {
		b.requests = slices.Clone(b.requests[len(b.requests)-keepRequests:])
	}
	hooks := b.hooks
	b.changed()
	b.mu.Unlock()
	for _, h := range hooks {
		if action := h.decide(r); action != (Action{}) {
			return action
		}
	}
	return Action{}
}
