package rmqdedup_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A handlerRun is one call of the business code.
type handlerRun struct {
	call      *listenerCall
	ctx       context.Context
	msgs      []*primitive.MessageExt
	works     []*work
	claims    []rmqdedup.Claim
	began     time.Time
	over      bool
	endedAt   time.Time
	succeeded bool
	cancelled error // why its context was cancelled, if it was when it returned
	level     int   // the delay level that it left behind
}

func (r *handlerRun) of(x *work) bool {
	return slices.Contains(r.works, x)
}

// tied says whether the run was cancelled at the moment at which it failed: whether it refused or was cut is then the wrapper's to say.
func (r *handlerRun) tied() bool {
	cause := context.Cause(r.ctx)
	return r.over && r.cancelled == nil && (errors.Is(cause, rmqdedup.ErrClaimLost) || errors.Is(cause, rmqdedup.ErrDraining))
}

// A mood is how one call of the business goes.
type mood struct {
	takes   time.Duration
	heeds   bool          // stops when its context is cancelled
	cleanUp time.Duration // and needs that long for it
	shrugs  bool          // and then says success all the same
	succeed bool
	manner  int  // of success or failure
	level   *int // the delay level that it sets
}

// mood decides how a run goes. It succeeds if none of its works is to be refused this time. The world's mutex is held.
func (w *world) mood(works []*work) mood {
	r := w.plan.roll("mood", works[0].name, works[0].runs)
	m := mood{takes: r.span(0, 50*time.Millisecond), heeds: r.chance(0.6), manner: r.IntN(6), succeed: true}
	for _, x := range works {
		m.succeed = m.succeed && x.refusals >= 0 && x.runs >= x.refusals
	}
	if !w.plan.badHandlers {
		return m
	}
	lease := w.plan.leases[0]
	switch r.IntN(20) {
	case 0, 1, 2, 3:
		m.takes = r.span(0, lease)
	case 4, 5, 6, 7, 8, 9:
		m.takes = r.span(lease, 4*lease)
	case 10, 11:
		m.takes = r.span(0, w.plan.config.ConsumeTimeout*5/2)
	}
	if w.healed {
		m.takes = min(m.takes, lease) // beyond the consume timeout each run makes a second copy of its message
	}
	m.cleanUp = pick(r, 0, 0, r.span(0, 2*time.Second))
	m.shrugs = r.chance(0.1)
	if r.chance(0.2) {
		level := r.IntN(6) - 1
		m.level = &level
	}
	return m
}

var errRefused = errors.New("refused by the business")

// handle is the business: the handler that a member wraps.
func (m *groupMember) handle(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	w := m.w
	run := &handlerRun{call: callOf(ctx), ctx: ctx, msgs: msgs, claims: rmqdedup.Claims(ctx), began: time.Now()}
	var how mood
	w.locked(func() {
		if m.crashed() || w.ended() {
			return
		}
		for _, msg := range msgs {
			run.works = append(run.works, w.truth(msg).work)
		}
		how = w.mood(run.works)
		w.beginRun(run)
	})
	if run.works == nil {
		<-w.end // a process that is no more runs nothing
		return consumer.ConsumeRetryLater, nil
	}
	how = m.work(ctx, how)
	if m.crashed() || w.ended() {
		<-w.end
		return consumer.ConsumeRetryLater, nil
	}
	if how.level != nil {
		if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
			c.DelayLevelWhenNextConsume = *how.level
		}
		if o, ok := primitive.GetOrderlyCtx(ctx); ok {
			o.SuspendCurrentQueueTimeMillis = *how.level * 100
		}
	}
	_, ordered := primitive.GetOrderlyCtx(ctx)
	if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
		run.level = c.DelayLevelWhenNextConsume
	}
	w.locked(func() { w.endRun(run, how) })
	return how.answer(ordered)
}

// work spends the time that a run takes, and says how it ends.
func (m *groupMember) work(ctx context.Context, how mood) mood {
	cancelled := ctx.Done()
	if !how.heeds {
		cancelled = nil
	}
	if !m.w.wait(how.takes, cancelled, m.dead) && !m.crashed() && !m.w.ended() {
		m.w.wait(how.cleanUp, m.dead, nil)
		how.succeed = how.succeed && how.shrugs
	}
	return how
}

// answer is what the handler returns. A panic is one of the answers.
func (how mood) answer(ordered bool) (consumer.ConsumeResult, error) {
	switch {
	case how.succeed && ordered && how.manner == 0:
		return consumer.Commit, nil
	case how.succeed && how.manner == 1:
		return consumer.ConsumeSuccess, errors.New("success, with an error beside it")
	case how.succeed:
		return consumer.ConsumeSuccess, nil
	case how.manner == 0:
		panic(errRefused)
	case how.manner == 1:
		return consumer.ConsumeRetryLater, errRefused
	case how.manner == 2:
		return consumer.Rollback, nil
	case how.manner == 3:
		return consumer.SuspendCurrentQueueAMoment, nil
	case how.manner == 4 && !ordered:
		return consumer.Commit, nil
	default:
		return consumer.ConsumeRetryLater, nil
	}
}

// beginRun and endRun note a run, and judge it. The world's mutex is held.
func (w *world) beginRun(r *handlerRun) {
	call := r.call
	call.begin()
	call.runs = append(call.runs, r)
	w.note("%s runs %v for %v", call.m.name, names(r.works), call)
	w.judgeRun(r)
	for _, x := range r.works {
		x.runs++
	}
	w.active[r] = true
}

func (w *world) endRun(r *handlerRun, how mood) {
	r.over, r.endedAt, r.succeeded, r.cancelled = true, time.Now(), how.succeed, context.Cause(r.ctx)
	delete(w.active, r)
	w.note("%s has run %v: success %v, cancelled: %v", r.call.m.name, names(r.works), r.succeeded, r.cancelled)
	w.judgeEndOfRun(r)
	if r.succeeded {
		for _, x := range r.works {
			x.done++
		}
	}
	r.call.finish()
}

// endRunsOf ends what a process that is no more was at: its runs did what they did until now, its pending writes are lost. The world's mutex is held.
func (w *world) endRunsOf(m *groupMember) {
	for write := range m.watch.pending {
		if write.op == rmqdedup.OpComplete {
			w.ledger.row(write.key).dropped = true
		}
	}
	for r := range w.active {
		if r.call.m == m {
			r.over, r.endedAt = true, time.Now()
			delete(w.active, r)
		}
	}
}

func names(works []*work) (names []string) {
	for _, x := range works {
		names = append(names, x.name)
	}
	return names
}
