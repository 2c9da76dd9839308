package janitor_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

func TestConfigRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  janitor.Config
		want string
	}{
		"schedule":          {janitor.Config{Schedule: "soon"}, `Schedule is "soon"`},
		"jitter":            {janitor.Config{Jitter: -time.Second}, "Jitter is -1s; it must be above zero, or NoJitter"},
		"too much jitter":   {janitor.Config{Jitter: time.Minute}, `Jitter is 1m0s, not below the 1m0s between two sweeps of Schedule "@every 1m"`},
		"batch":             {janitor.Config{BatchSize: -3}, "BatchSize is -3; it must be above zero"},
		"pause":             {janitor.Config{Pause: -1}, "Pause is -1ns; it must be above zero"},
		"statement timeout": {janitor.Config{StatementTimeout: -1}, "StatementTimeout is -1ns; it must be above zero"},
		"sweep timeout":     {janitor.Config{SweepTimeout: -1}, "SweepTimeout is -1ns; it must be above zero"},
		"pause and sweep":   {janitor.Config{Pause: 15 * time.Second}, "Pause is 15s, which may become 5 times that, and SweepTimeout is 1m0s"},
		"endless pause":     {janitor.Config{Pause: math.MaxInt64}, "a sweep might end after a single batch"},
		"consumer": {janitor.Config{Consumers: map[string]rmqdedup.Config{"sound": {}, "order-group": {Lease: -time.Second}}},
			`Consumers: "order-group": rmqdedup: no budget can be made of these figures:` + "\nLease is -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := janitor.New(newTable(t, 0, 0), tt.cfg)
			if err == nil || j != nil {
				t.Fatalf("New returned %v, %v", j, err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error does not say %q:\n%v", tt.want, err)
			}
		})
	}
}

func TestConfigTellsAllProblemsAtOnce(t *testing.T) {
	_, err := janitor.New(nil, janitor.Config{
		Schedule: "61 * * * *", Jitter: -2, BatchSize: -3, Pause: -4, StatementTimeout: -5, SweepTimeout: -6,
		Consumers: map[string]rmqdedup.Config{"a": {ConsumeTimeout: -7}, "b": {MaxReconsumeTimes: -8}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"store is nil", `"61 * * * *"`, "Jitter is -2ns", "BatchSize is -3", "Pause is -4ns", "StatementTimeout is -5ns", "SweepTimeout is -6ns",
		`"a"`, "ConsumeTimeout is -7ns", `"b"`, "MaxReconsumeTimes is -8",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

func TestZeroConfigWorks(t *testing.T) {
	if _, err := janitor.New(newTable(t, 0, 0), janitor.Config{}); err != nil {
		t.Error(err)
	}
	if _, err := janitor.New(nil, janitor.Config{}); err == nil || !strings.Contains(err.Error(), "the store is nil; open one") {
		t.Errorf("of a nil store: %v", err)
	}
}

// A probe's key is never a message's, since no consumer group has its group's name.
func TestProbeGroupIsNoConsumerGroup(t *testing.T) {
	if _, err := rmqdedup.New(newTable(t, 0, 0), janitor.ProbeGroup, rmqdedup.Config{Key: rmqdedup.Keys}); err == nil || !strings.Contains(err.Error(), janitor.ProbeGroup) {
		t.Errorf("a consumer of group %q: %v", janitor.ProbeGroup, err)
	}
}
