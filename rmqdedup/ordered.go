package rmqdedup

import (
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

// ordered serves a delivery of an ordered consumer: only what stands before the first message that cannot run now is run, and then that
// message is waited for, since everything behind it has to.
func (x *delivery) ordered() (consumer.ConsumeResult, error) {
	at := 0               // the first member that is not settled
	var waiting time.Time // since when it is in flight
	for polls := 0; ; polls++ {
		if polls > 0 {
			x.acquire(at, at+1) // while that one is in the way, the others need not be claimed
		}
		if polls == 0 || x.members[at].state == held || x.members[at].state == bare || x.members[at].state == finished {
			x.acquire(at, len(x.members))
		}
		to := x.firstBlocked(at)
		x.giveBack(to + 1) // nothing is held while we wait
		x.run(to)
		if x.drained {
			return x.letGo()
		}
		next, failed := x.progress(at)
		if next > at {
			at, waiting, polls = next, time.Time{}, 0
		}
		switch {
		case failed && !(x.members[at].state == cut && x.d.drain.started()):
			return x.retry()
		case at == len(x.members):
			return consumer.ConsumeSuccess, x.handlerErr
		case x.d.drain.started():
			return x.letGo()
		}
		m := &x.members[at]
		if m.state == fresh || m.state == held || m.state == bare {
			polls = -1 // a claim was lost before the handler could start: begin again at once
			continue
		}
		if !x.pause(x.census().poll(polls), x.until(m, &waiting)) {
			if x.d.drain.started() {
				return x.letGo()
			}
			return x.retry()
		}
	}
}

// firstBlocked is the index of the first member from at on that cannot run now.
func (x *delivery) firstBlocked(at int) int {
	for i := at; i < len(x.members); i++ {
		if s := x.members[i].state; s == inFlight || s == unreachable || s == cut {
			return i
		}
	}
	return len(x.members)
}

// progress is the index of the first member from at on that is not finished, and whether a handler refused it.
func (x *delivery) progress(at int) (next int, failed bool) {
	for next = at; next < len(x.members); next++ {
		if s := x.members[next].state; s != finished {
			return next, s == refused || (s == cut && !x.last)
		}
	}
	return next, false
}

// until is how long the member in the way is waited for.
func (x *delivery) until(m *member, waiting *time.Time) time.Time {
	if m.state == unreachable {
		x.tell(EventHeld, m, m.err)
		return x.start.Add(forever) // until the store is back, or draining starts
	}
	if waiting.IsZero() {
		*waiting = time.Now()
	}
	until := waiting.Add(x.d.cfg.InFlightWait)
	if x.last {
		x.tell(EventLastAttempt, m, nil)
		if last := x.start.Add(x.d.cfg.lastWait()); last.After(until) {
			return last
		}
	}
	return until
}
