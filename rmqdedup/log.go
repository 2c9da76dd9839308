package rmqdedup

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Log returns an observer that logs events with l (nil: slog.Default() at the time of each event). Bodies are never logged.
//
//	Debug  an attempt in the ordinary course: a repeated key, a write that landed
//	Info   what the wrapper is for: suppressed, in flight, taken over; and the figures at construction
//	Warn   what someone should look into, such as a lost claim, a store that does not answer, a message without a key
//	Error  what costs a guarantee: a message dead-lettered unrefused, a dropped write, a consumer other than configured (once)
func Log(l *slog.Logger) Observer { return &logObserver{logger: l} }

type logObserver struct {
	NopObserver
	logger *slog.Logger
	told   sync.Map // contradictions, by their text
}

func (o *logObserver) Event(ctx context.Context, e Event) {
	if e.Kind == EventContradiction && e.Err != nil {
		if _, again := o.told.LoadOrStore(e.Err.Error(), true); again {
			return
		}
	}
	l := o.logger
	if l == nil {
		l = slog.Default()
	}
	level := e.level()
	if !l.Enabled(ctx, level) {
		return
	}
	l.LogAttrs(ctx, level, "rmqdedup: "+e.Kind.String(), e.attrs()...)
}

func (e *Event) level() slog.Level {
	switch e.Kind {
	case EventRepeated, EventWriteLanded:
		return slog.LevelDebug
	case EventSuppressed, EventInFlight, EventTakenOver, EventConfigured, EventLastAttempt:
		return slog.LevelInfo
	case EventLastAttemptUnsettled, EventBatchMateDeadLettered, EventWriteDropped, EventContradiction, EventAfterClose, EventPanic:
		return slog.LevelError
	}
	return slog.LevelWarn
}

func (e *Event) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 12)
	add := func(a ...slog.Attr) { attrs = append(attrs, a...) }
	add(slog.String("group", e.Group))
	if !e.Key.IsZero() {
		add(slog.String("key", e.Key.String()))
	}
	if m := e.Message; m != nil {
		add(slog.String("msgID", stableID(m)), slog.Int("attempt", int(m.ReconsumeTimes)))
	}
	if r := e.Record; r != nil {
		if r.MessageID != "" {
			add(slog.String("recordedBy", r.MessageID), slog.Int("recordedAttempt", r.Attempt))
		}
		if !r.DoneAt.IsZero() {
			add(slog.Time("doneAt", r.DoneAt))
		}
	}
	if e.Left > 0 {
		add(slog.Duration("left", e.Left.Round(time.Millisecond)))
	}
	if e.Op != 0 {
		add(slog.String("op", e.Op.String()))
	}
	if e.Err != nil {
		add(slog.Any("err", e.Err))
	}
	if e.Detail != "" {
		add(slog.String("detail", e.Detail))
	}
	if e.Shadow {
		add(slog.Bool("shadow", true))
	}
	return attrs
}
