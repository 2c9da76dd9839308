package rmqdedup_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// planWorks decides what is to be done, and by which messages: some works come once, some as duplicates under another
// message ID, in the same queue or another, some twice under one message ID, and some without a key.
func (w *world) planWorks() {
	r := w.plan.roll("works")
	for i := range 2 + r.IntN(8) {
		x := &work{name: fmt.Sprintf("order-%c", 'A'+i), byMessageID: !w.plan.byOrder, refusals: pick(r, 0, 0, 0, 1, 2, 3)}
		if r.chance(0.15) && (w.plan.config.Mode == rmqdedup.Concurrent || w.plan.retries() >= 0) {
			x.refusals = -1 // never in an ordered queue without a limit, which it would hold up for ever
		}
		if !w.plan.badHandlers && x.refusals > 0 {
			x.refusals = 0
		}
		copies := pick(r, w.plan.copies...)
		if w.plan.byOrder && r.chance(0.1) {
			x.byMessageID, x.unprotected, copies = true, w.plan.config.NoKey == rmqdedup.NoKeyUnprotected, 1
		}
		w.works = append(w.works, x)
		for range copies {
			s := &sentMessage{number: len(w.sent), work: x, queue: r.IntN(w.plan.queues)}
			x.messages = append(x.messages, s)
			w.sent = append(w.sent, s)
		}
	}
}

// produce sends a message. Members of a batch send have no UNIQ_KEY; two messages of one work that goes by its message ID have the same.
func (w *world) produce(s *sentMessage) {
	r := w.plan.roll("produce", s.number)
	properties := map[string]string{truthProperty: fmt.Sprint(s.number), primitive.PropertyTags: "paid"}
	if !s.work.byMessageID {
		properties[orderProperty] = s.work.name
	}
	switch {
	case s.work.byMessageID && len(s.work.messages) > 1:
		properties[primitive.PropertyUniqueClientMessageIdKeyIndex] = "ID-" + s.work.name
	case r.chance(0.7):
		properties[primitive.PropertyUniqueClientMessageIdKeyIndex] = fmt.Sprint("ID-", s.number)
	}
	w.locked(func() {
		w.broker.send(s, properties)
		s.stored = true
	})
}

// An incident is one thing that happens in the storm.
type incident struct {
	at time.Duration
	do func()
}

// weatherTheStorm plans what happens, and lets it happen.
func (w *world) weatherTheStorm() {
	r := w.plan.roll("storm")
	var incidents []incident
	at := func(before float64, do func()) {
		incidents = append(incidents, incident{r.span(0, time.Duration(before*float64(w.plan.storm))), do})
	}
	for _, s := range w.sent {
		at(w.plan.produced, func() { w.produce(s) })
	}
	if w.plan.badMembers {
		for i := range 1 + r.IntN(8) {
			at(1, func() { w.memberTrouble(w.plan.roll("member trouble", i)) })
		}
	}
	w.planWeather(r)
	slices.SortStableFunc(incidents, func(a, b incident) int { return int(a.at - b.at) })
	for _, i := range incidents {
		w.wait(time.Until(w.start.Add(i.at)), nil, nil)
		if w.broken() {
			return
		}
		i.do()
	}
	w.wait(time.Until(w.start.Add(w.plan.storm)), nil, nil)
}

// planWeather decides when the store, and the way back to the broker, are in what state.
func (w *world) planWeather(r dice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	spellOf := func(kind spellKind, longest time.Duration, odds float64) *spell {
		from := w.start.Add(r.span(0, w.plan.storm))
		w.weather = append(w.weather, spell{kind: kind, from: from, to: from.Add(r.span(time.Second, longest)), odds: odds})
		return &w.weather[len(w.weather)-1]
	}
	if w.plan.badStore {
		for range 2 + r.IntN(6) {
			s := spellOf(pick(r, w.plan.spells...), w.plan.storm/2, 1)
			switch s.kind {
			case storeFlaky, storeSlow:
				s.odds = 0.1 + 0.5*r.Float64()
			case keyAway:
				s.work = pick(r, w.works...).name
			}
			if r.chance(0.5) && s.kind != keyAway {
				s.m = w.members[r.IntN(len(w.members))]
			}
		}
	}
	if w.plan.badBroker {
		for range 1 + r.IntN(3) {
			spellOf(backAway, w.plan.storm/2, r.Float64())
		}
	}
	for _, s := range w.weather {
		who := "all"
		if s.m != nil {
			who = s.m.name
		}
		w.note("* from %.1f to %.1f, for %s %s: %s (%.1f)", w.clock(s.from), w.clock(s.to), who, s.work, s.kind, s.odds)
	}
}

// A memberIncident is what may happen to the group.
type memberIncident string

const (
	crashes          memberIncident = "a crash"
	leaves           memberIncident = "a shutdown"
	joins            memberIncident = "a newcomer"
	flaps            memberIncident = "a lost sight"
	replays          memberIncident = "a replay"
	consumesDirectly memberIncident = "a direct consumption"
)

// memberTrouble lets one of them happen.
func (w *world) memberTrouble(r dice) {
	living := w.living()
	if len(living) == 0 {
		w.join()
		return
	}
	m := living[r.IntN(len(living))]
	soon := r.span(0, 20*time.Second)
	switch pick(r, w.plan.incidents...) {
	case crashes:
		m.crash()
		w.later(soon, func() { w.join() })
	case leaves:
		allowed := pick(r, 0, r.span(0, 5*time.Second), r.span(0, time.Minute), 10*time.Minute)
		consumerFirst, exits, staying := r.chance(0.2), r.chance(0.5), r.span(0, 5*time.Second)
		go func() {
			_ = m.leave(allowed, consumerFirst)
			w.locked(func() { w.saw("member left in the storm") })
			if exits && w.wait(staying, nil, nil) {
				w.exit(m)
			}
		}()
		w.later(soon, func() { w.join() })
	case joins:
		w.join()
	case flaps:
		w.flap(m, soon)
	case replays:
		w.replay(r)
	case consumesDirectly:
		w.consumeDirectly(r, m)
	}
}

func (w *world) later(after time.Duration, do func()) {
	time.AfterFunc(after, func() {
		if ready := !w.ended() && !w.calm(); ready {
			do()
		}
	})
}

func (w *world) calm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.healed
}

// exit ends the process of a member that was shut down: a handler that still runs ends with it.
func (w *world) exit(m *groupMember) {
	w.locked(func() {
		if !m.crashed() {
			w.note("* the process of %s exits", m.name)
			close(m.dead)
			w.endRunsOf(m)
		}
	})
}

// flap has the broker lose sight of a member for a while: its queues go to others, and it does not know yet.
func (w *world) flap(m *groupMember, d time.Duration) {
	w.locked(func() {
		w.note("* the broker does not see %s for %v", m.name, d)
		w.saw("member not seen")
		delete(w.broker.listed, m)
	})
	w.tellAll()
	time.AfterFunc(d, func() {
		w.locked(func() {
			if !m.down && !m.crashed() {
				w.broker.listed[m] = true
			}
		})
		w.tellAll()
	})
}

// replay sets a queue's offset back: everything from there on is delivered again.
func (w *world) replay(r dice) {
	w.locked(func() {
		id := queueOf(walkTopic, r.IntN(w.plan.queues))
		q := w.broker.queues[id]
		to := r.Int64N(q.committed + 1)
		w.note("* queue %d is replayed from offset %d", id.QueueId, to)
		w.saw("queue replayed")
		for _, m := range w.members {
			if held := m.table[id]; held != nil && !m.down && !m.crashed() {
				held.drop()
				delete(m.table, id)
				delete(m.offsets, id)
			}
		}
		q.committed = to
	})
	w.tellAll()
}

// consumeDirectly is an operator's request to consume one message at once: the listener is called with a concurrent context,
// whatever the consumer's mode is, and nothing follows from the answer.
func (w *world) consumeDirectly(r dice, m *groupMember) {
	var call *listenerCall
	w.locked(func() {
		if len(w.broker.log) == 0 {
			return
		}
		msgs := []*primitive.MessageExt{w.broker.log[r.IntN(len(w.broker.log))].decode()}
		prepare(msgs)
		call = m.enter(nil, msgs)
		call.mode = rmqdedup.Concurrent
		w.saw("consumed directly")
	})
	if call == nil {
		return
	}
	go func() {
		ctx := context.WithValue(context.Background(), callContextKey{}, call)
		m.listenTo(primitive.WithConcurrentlyCtx(ctx, primitive.NewConsumeConcurrentlyContext()), call)
		w.locked(func() { m.leaveCall(call) })
	}()
}

// heal ends the storm: from now on nothing goes wrong, and somebody is there to do the work.
func (w *world) heal() {
	w.locked(func() {
		w.healed = true
		w.note("* the storm is over")
	})
	if len(w.living()) == 0 {
		w.join()
	}
}
