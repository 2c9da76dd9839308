package janitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/rmqdedup/rmqdedup-go/janitor"
)

// A sweep is told at Debug if it found nothing, at Info if it did, and at Warn if someone should look into it.
func TestLevels(t *testing.T) {
	for name, tt := range map[string]struct {
		claims, done int
		err          error
		want         string
	}{
		"nothing":           {0, 0, nil, "level=DEBUG msg=\"janitor: swept\" elapsed=0s cleared=0 left=0 purged=0 batches=0"},
		"only claims":       {1, 0, nil, "level=INFO msg=\"janitor: swept\" elapsed=18ms cleared=1 left=0 purged=0 batches=1 smallestBatch=50 longestProbe=0s idleProbe=0s"},
		"only DONE":         {0, 1, nil, "level=INFO msg=\"janitor: swept\" elapsed=20ms cleared=0 left=0 purged=1 batches=1"},
		"an error":          {1, 1, errAway, "level=WARN msg=\"janitor: sweep failed, the next one goes on\" elapsed="},
		"a store cancelled": {1, 1, fmt.Errorf("a pool of its own: %w", context.Canceled), "level=WARN msg=\"janitor: sweep failed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable(t, tt.claims, tt.done)
				tab.spoil = func(context.Context, string, int) error { return tt.err }
				j, _, log := newJanitor(t, tab, janitor.Config{})
				if _, err := j.Sweep(t.Context()); !errors.Is(err, tt.err) {
					t.Error(err)
				}
				if len(log.lines(tt.want)) != 1 || len(log.lines()) != 1 {
					t.Errorf("logged %q, want %q", log.lines(), tt.want)
				}
			})
		})
	}
}

// Without a Logger it is slog's default, as it is at the time.
func TestDefaultLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := janitor.New(newTable(t, 1, 0), janitor.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var log journal
		before := slog.Default()
		slog.SetDefault(log.logger())
		defer slog.SetDefault(before)
		if _, err := j.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if len(log.lines("janitor: swept", "cleared=1")) != 1 {
			t.Errorf("logged %q", log.lines())
		}
	})
}
