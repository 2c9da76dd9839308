package rmqdedup

import (
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

// longestPoll is the longest pause between two looks at a key that a delivery waits for.
const longestPoll = time.Second

// census counts a delivery's members by what is left to do.
type census struct {
	fresh, inFlight, unreachable, refused, cut int
	left                                       time.Duration // the shortest time until a claim in flight ends
}

func (x *delivery) census() (n census) {
	for i := range x.members {
		m := &x.members[i]
		switch m.state {
		case fresh:
			n.fresh++
		case inFlight:
			if n.inFlight == 0 || m.left < n.left {
				n.left = m.left
			}
			n.inFlight++
		case unreachable:
			n.unreachable++
		case refused:
			n.refused++
		case cut:
			n.cut++
		}
	}
	return n
}

func (n census) unsettled() int { return n.fresh + n.inFlight + n.unreachable + n.cut }

// concurrent serves a delivery of a concurrent consumer: what is claimed runs first, then what is not decides the answer.
func (x *delivery) concurrent() (consumer.ConsumeResult, error) {
	for polls := 0; ; polls++ {
		x.acquire(0, len(x.members))
		x.run(len(x.members))
		n := x.census()
		if x.drained {
			return x.letGo()
		}
		var until time.Time
		switch {
		case n.unsettled() == 0 && !x.holding():
			if n.refused > 0 {
				return x.retry()
			}
			return consumer.ConsumeSuccess, x.handlerErr
		case x.d.drain.started():
			return x.letGo()
		case n.fresh > 0 || x.holding():
			continue // claims were lost before the handler could start
		case x.last:
			x.tell(EventLastAttempt, nil, nil)
			until = x.start.Add(x.d.cfg.lastWait())
		case n.unreachable == n.unsettled() && n.refused == 0:
			x.tell(EventHeld, x.firstIn(unreachable), x.firstIn(unreachable).err)
			until = x.start.Add(x.d.cfg.outageHold())
		default:
			return x.retry()
		}
		if !x.pause(n.poll(polls), until) {
			if x.d.drain.started() {
				return x.letGo()
			}
			return x.retry()
		}
	}
}

// poll is how long to wait before looking again: not beyond the end of a claim in flight, and longer each time.
func (n census) poll(polls int) time.Duration {
	d := backoff(polls, longestPoll)
	if n.inFlight > 0 {
		d = min(d, n.left+time.Millisecond)
	}
	return d
}

// holding says whether a claim waits for its handler to be started.
func (x *delivery) holding() bool {
	for i := range x.members {
		if s := x.members[i].state; s == held || s == bare {
			return true
		}
	}
	return false
}

func (x *delivery) firstIn(s memberState) *member {
	for i := range x.members {
		if x.members[i].state == s {
			return &x.members[i]
		}
	}
	return nil
}
