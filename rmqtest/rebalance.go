package rmqtest

import (
	"context"
	"fmt"
	"slices"
)

// A balancing counts how often a client asks for a group's members, which it does once a topic in every balance. That
// tells how many balances it has to its credit.
type balancing struct{ asked, due int }

// expect counts further balances that the client is going to make, after the one that it may be making now.
func (l *balancing) expect(m *member, balances int) {
	if topics := len(m.subs); topics > 0 && !m.broadcasting {
		whole := (l.asked + topics - 1) / topics * topics
		l.due = max(l.due, whole) + balances*topics
	}
}

// balance is called with b.mu held.
func (c *conn) balance(group string) *balancing {
	if c.balances[group] == nil {
		c.balances[group] = new(balancing)
	}
	return c.balances[group]
}

// A client is told of a change twice. The last thing that a balance asks may be followed by what it does about the
// answer; after a second one, which has nothing left to do, it is still.
const tellings = 2

func tell(told map[*conn]string) {
	for c, group := range told {
		for range tellings {
			c.notify(group)
		}
	}
}

// expectBalances expects those of a client that is to be told: it balances all its groups. b.mu is held.
func (b *Broker) expectBalances(c *conn) {
	for group, members := range b.members {
		for _, m := range members {
			if m.conn == c {
				c.balance(group).expect(m, tellings)
			}
		}
	}
}

// WaitForBalance returns when no member of a group is still balancing on account of a member that came or went.
func (b *Broker) WaitForBalance(ctx context.Context, group string) error {
	var conns map[*conn]bool
	if err := b.waitLocked(ctx, "the members of "+group+" to balance", func() bool {
		conns = make(map[*conn]bool)
		for _, m := range b.members[group] {
			if l := m.conn.balance(group); m.conn.ctx.Err() == nil && l.asked < l.due {
				return false
			}
			conns[m.conn] = true
		}
		return true
	}); err != nil {
		return err
	}
	// The last answer is now on its way. The reply to the first ping is read after it has been written, and the second
	// ping reaches the client after it.
	for c := range conns {
		for range 2 {
			if _, err := c.call(ctx, ping, nil, nil); err != nil && c.ctx.Err() == nil {
				return fmt.Errorf("rmqtest: waiting for the members of %s to balance: %w", group, err)
			}
		}
	}
	return nil
}

// ShutDown calls a consumer's shutdown when the group is not balancing, and returns when the broker has noticed it and
// the rest of the group has balanced. The consumer is named by its client ID or instance name. A consumer that is shut
// down while it balances has a data race inside the client, which go test -race reports, and may log errors. ctx limits
// the wait: a suspended consumer does not balance, and one that shares its instance leaves with the next heart beat.
func (b *Broker) ShutDown(ctx context.Context, group, member string, shutdown func() error) error {
	if err := b.WaitForBalance(ctx, group); err != nil {
		return err
	}
	if err := shutdown(); err != nil {
		return err
	}
	if err := b.waitLocked(ctx, fmt.Sprintf("%s to leave %s", member, group), func() bool {
		_, err := b.member(group, member)
		return err != nil
	}); err != nil {
		return err
	}
	return b.WaitForBalance(ctx, group)
}

// Rebalance makes the members of a group balance and returns when each has done so: it has let go of the queues that it
// is to lose and begun to pull those that it is to have. ctx limits the wait, as a member whose consumer is suspended
// does not balance. A broadcasting group never does and is an error.
func (b *Broker) Rebalance(ctx context.Context, group string) error {
	b.mu.Lock()
	for _, m := range b.members[group] {
		if m.broadcasting {
			b.mu.Unlock()
			return fmt.Errorf("rmqtest: rebalance: group %s is broadcasting", group)
		}
	}
	told := b.toTell(map[string]bool{group: true})
	b.mu.Unlock()
	tell(told)
	if err := b.WaitForBalance(ctx, group); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nudge(group)
	return nil
}

// A view is how a group's members are shown to them. Each client works out for itself which queues are its own, from
// the members that ListMembers shows it, so a view moves queues without a member coming or going.
type view struct {
	taken   map[string]int // more than 0: the client with this ID is to have no queue
	phantom int            // members that do not exist
	split   int            // more than 0: each member sees only itself
	stopped int            // more than 0: there is nobody to be seen
}

// view is called with b.mu held.
func (b *Broker) view(group string) *view {
	if b.views[group] == nil {
		b.views[group] = &view{taken: make(map[string]int)}
	}
	return b.views[group]
}

func (v *view) seenBy(client string, ids []string) []string {
	switch {
	case v.stopped > 0:
		return nil
	case v.split > 0 && v.taken[client] == 0:
		return []string{client}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return v.taken[id] > 0 })
	for i := range v.phantom {
		ids = append(ids, fmt.Sprintf("!phantom-%d", i+1)) // comes before all IDs that begin with an address
	}
	return ids
}

// An Undo ends a fault that moved queues, and returns when the group has balanced, or ctx has ended.
type Undo func(ctx context.Context) error

// moveQueues changes a view by 1 until it is undone, or at once back if the group does not balance.
func (b *Broker) moveQueues(ctx context.Context, group string, change func(v *view, by int)) (Undo, error) {
	set := func(by int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		change(b.view(group), by)
	}
	set(1)
	if err := b.Rebalance(ctx, group); err != nil {
		set(-1)
		return nil, err
	}
	return func(ctx context.Context) error {
		set(-1)
		return b.Rebalance(ctx, group)
	}, nil
}

// TakeQueues takes all its queues from one member of a group, named by client ID or instance name, and gives them to
// the others, if there are any. It returns when the member has let go: the client then throws the result of a handler
// that still runs away, and the message comes again.
func (b *Broker) TakeQueues(ctx context.Context, group, member string) (giveBack Undo, err error) {
	b.mu.Lock()
	m, err := b.member(group, member)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.moveQueues(ctx, group, func(v *view, by int) { v.taken[m.id] += by })
}

// AddPhantom adds a member to a group that takes its share of the queues, the first ones, and consumes nothing. It
// returns when the others have balanced.
func (b *Broker) AddPhantom(ctx context.Context, group string) (leave Undo, err error) {
	return b.moveQueues(ctx, group, func(v *view, by int) { v.phantom += by })
}

// Split makes each member of a group believe that it is the only one: all of them consume all queues, and each message
// goes to all of them at once, as it does for a while when members disagree about a balance. It returns when they have
// balanced.
func (b *Broker) Split(ctx context.Context, group string) (heal Undo, err error) {
	return b.moveQueues(ctx, group, func(v *view, by int) { v.split += by })
}

// Replay delivers the messages of a topic to a group again, from an offset on in each queue: as after a crash of the
// whole group whose progress was lost. It takes the group's queues away, sets the offsets, gives the queues back and
// returns when the members have balanced. Handlers that run meanwhile lose their result.
func (b *Broker) Replay(ctx context.Context, group, topic string, offset int64) error {
	hear := b.LoseCommits(group)
	defer hear()
	giveBack, err := b.moveQueues(ctx, group, func(v *view, by int) { v.stopped += by })
	if err != nil {
		return err
	}
	b.SetOffset(group, topic, offset)
	return giveBack(ctx)
}
