package e2e

import (
	"bytes"
	"context"
	"slices"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// A road is a way to the broker on which things go wrong. Whoever is to take it is given its name server; all others are as they were.
type road struct {
	names string

	// What befalls the answers that a producer is waiting for, until it is over: lost, lost with their connection, or late.
	loseAnswers, cutAnswers, delayAnswers func() (over func())
	// disconnect breaks a member's connection, once.
	disconnect func(instance string) error

	// What befalls the next request with a code: it does not reach the broker, or its answer is lost. The wait is for that to happen.
	loseRequest, loseAnswer func(rmqtest.Code) (wait func(context.Context) error)
	// refuse has the next n requests with these codes refused, or all of them until it is over, if n < 0.
	refuse func(n int, codes ...rmqtest.Code) (over func())
	// restart restarts the broker. Who takes the road finds nobody at its end meanwhile.
	restart func(ctx context.Context, topic string, how rmqtest.Restart) error
	// forgetMembers has the group seem to have no members.
	forgetMembers func() (over func())
	// show has its members seem to be these instances, where that is a matter of the road.
	show func(instances ...string) (over func())
}

func (b *inProcess) road(s *story) road {
	// lost waits for one request more than there have been.
	lost := func(code rmqtest.Code) func(context.Context) error {
		n := b.broker.RequestCount(code) + 1
		return func(ctx context.Context) error { return b.broker.WaitForRequests(ctx, code, n) }
	}
	return road{
		names:        b.names,
		loseAnswers:  func() func() { return b.broker.LoseReplies(rmqtest.Send, -1) },
		cutAnswers:   func() func() { return b.broker.CutAfter(rmqtest.Send, -1) },
		delayAnswers: func() func() { return b.broker.SlowAnswers(rmqtest.Send, 2*impatience) },
		disconnect:   b.broker.Disconnect,
		loseRequest: func(code rmqtest.Code) func(context.Context) error {
			wait := lost(code)
			b.broker.LoseRequests(code, 1)
			return wait
		},
		loseAnswer: func(code rmqtest.Code) func(context.Context) error {
			wait := lost(code)
			b.broker.LoseReplies(code, 1)
			return wait
		},
		refuse: func(n int, codes ...rmqtest.Code) func() {
			if slices.Equal(codes, []rmqtest.Code{rmqtest.SendBack}) {
				return b.broker.RefuseSendBacks(n)
			}
			return b.broker.Fault(n, rmqtest.Refuse(rmqtest.SystemError), codes...)
		},
		forgetMembers: func() func() {
			return b.broker.Hook(func(r *rmqtest.Request) rmqtest.Action {
				if r.Code == rmqtest.ListMembers && r.Group == s.group {
					return rmqtest.Action{Answer: &rmqtest.Answer{Status: rmqtest.SystemError}}
				}
				return rmqtest.Action{}
			})
		},
		restart: b.restart,
	}
}

// road is a line to the broker, and one to the name server that tells those who ask it of the former.
func (b *rocketMQ) road(s *story) road {
	t := newTap(s)
	l := newLine(s, b.addr, t.carry)
	names := newLine(s, b.names, func(frame []byte, server bool) []byte {
		if !server {
			return frame
		}
		return bytes.ReplaceAll(frame, []byte(b.addr), []byte(l.listener.Addr().String()))
	})
	return road{
		names:       names.listener.Addr().String(),
		loseAnswers: func() func() { l.mute(); return l.mend },
		cutAnswers: func() func() {
			l.mute()
			return func() { l.cut(); l.mend() }
		},
		delayAnswers: func() func() { l.delay(); return l.mend },
		disconnect:   func(string) error { l.cut(); l.mend(); return nil },
		loseRequest:  t.loseRequest,
		loseAnswer:   t.loseAnswer,
		refuse:       t.refuse,
		restart: func(ctx context.Context, topic string, how rmqtest.Restart) error {
			l.cut()
			defer l.mend()
			return b.restart(ctx, topic, how)
		},
		forgetMembers: func() func() { return t.show() },
		show:          t.show,
	}
}
