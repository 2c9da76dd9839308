package rmqdedup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

func memoryStore(t testing.TB) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// coarse is a store whose clock has whole seconds.
type coarse struct{ rmqdedup.Store }

func (coarse) Resolution() time.Duration { return time.Second }

func TestConfigRefuses(t *testing.T) {
	key := rmqdedup.Keys
	seconds := func(n ...int) []time.Duration {
		levels := make([]time.Duration, len(n))
		for i, s := range n {
			levels[i] = time.Duration(s) * time.Second
		}
		return levels
	}
	tests := []struct {
		name  string
		group string // "": a good one
		store rmqdedup.Store
		cfg   rmqdedup.Config
		want  []string // what the error has to say: setting, figures, what to do
	}{
		{name: "no key function", want: []string{"Key is nil", "JSONField"}},
		{name: "no group", group: "none", cfg: rmqdedup.Config{Key: key}, want: []string{`the group is ""`, "1 to 255"}},
		{name: "bad group", group: "order group", cfg: rmqdedup.Config{Key: key}, want: []string{`"order group"`}},
		{name: "long group", group: strings.Repeat("g", 256), cfg: rmqdedup.Config{Key: key}, want: []string{"1 to 255"}},
		{name: "bad namespace", cfg: rmqdedup.Config{Key: key, Namespace: "ns%"}, want: []string{`Namespace is "ns%"`}},
		{name: "negative lease", cfg: rmqdedup.Config{Key: key, Lease: -time.Second}, want: []string{"Lease is -1s", "above zero"}},
		{name: "negative retention", cfg: rmqdedup.Config{Key: key, Retention: -1}, want: []string{"Retention is -1ns", "above zero"}},
		{name: "negative consume timeout", cfg: rmqdedup.Config{Key: key, ConsumeTimeout: -1}, want: []string{"ConsumeTimeout is -1ns"}},
		{name: "negative storage time", cfg: rmqdedup.Config{Key: key, StorageTime: -1}, want: []string{"StorageTime is -1ns"}},
		{name: "negative pause", cfg: rmqdedup.Config{Key: key, SuspendPause: -1}, want: []string{"SuspendPause is -1ns"}},
		{name: "negative wait", cfg: rmqdedup.Config{Key: key, InFlightWait: -1}, want: []string{"InFlightWait is -1ns"}},
		{name: "negative pending", cfg: rmqdedup.Config{Key: key, MaxPendingWrites: -1}, want: []string{"MaxPendingWrites is -1"}},
		{name: "attempts below NoReconsume", cfg: rmqdedup.Config{Key: key, MaxReconsumeTimes: -3}, want: []string{"MaxReconsumeTimes is -3", "NoReconsume"}},
		{name: "no delay levels", cfg: rmqdedup.Config{Key: key, DelayLevels: seconds()}, want: []string{"DelayLevels is empty", "messageDelayLevel"}},
		{name: "a delay level of zero", cfg: rmqdedup.Config{Key: key, DelayLevels: seconds(1, 0, 2, -1)},
			want: []string{"level 2 is 0s", "level 4 is -1s"}},
		{name: "lease below the default resolution", cfg: rmqdedup.Config{Key: key, Lease: time.Microsecond},
			store: rmqdedup.Intercept(nil, nil), want: []string{"Lease is 1µs", "below the 1ms"}},
		{name: "lease and retention below the store's resolution", store: coarse{}, cfg: rmqdedup.Config{Key: key, Lease: 900 * time.Millisecond, Retention: time.Millisecond},
			want: []string{"Lease is 900ms, below the 1s", "Retention is 1ms, below the 1s"}},
		{name: "AutoCommit off", cfg: rmqdedup.Config{Key: key, ManualCommit: true}, want: []string{"ManualCommit", "AutoCommit"}},
		{name: "broadcasting", cfg: rmqdedup.Config{Key: key, Mode: rmqdedup.Broadcasting}, want: []string{"Broadcasting", "unwrapped"}},
		{name: "unknown mode", cfg: rmqdedup.Config{Key: key, Mode: 7}, want: []string{"Mode is Mode(7)", "Concurrent or Ordered"}},
		{name: "unknown scope", cfg: rmqdedup.Config{Key: key, Scope: 7}, want: []string{"Scope is Scope(7)", "ScopeTag"}},
		{name: "unknown policies", cfg: rmqdedup.Config{Key: key, NoKey: 7, Outage: 8}, want: []string{"NoKey is 7", "Outage is 8"}},

		{name: "lease longer than the retries outlast", cfg: rmqdedup.Config{Key: key, MaxReconsumeTimes: 3, Lease: 16 * time.Minute},
			want: []string{"Lease is 16m0s", "15m40s", "3 retries", "1m40s", "14m0s", "shorten Lease", "MaxReconsumeTimes"}},
		{name: "lease longer than the last wait without retries", cfg: rmqdedup.Config{Key: key, MaxReconsumeTimes: rmqdedup.NoReconsume, Lease: 15 * time.Minute},
			want: []string{"Lease is 15m0s", "14m0s", "0 retries"}},
		{name: "lease longer than an ordered consumer's attempts", cfg: rmqdedup.Config{Key: key, Mode: rmqdedup.Ordered, MaxReconsumeTimes: 1,
			Lease: time.Hour, InFlightWait: time.Minute, ConsumeTimeout: time.Minute}, want: []string{"Lease is 1h0m0s", "2m58s", "3 attempts", "2m2s", "56s"}},
		{name: "retention shorter than the retries", cfg: rmqdedup.Config{Key: key, Retention: 4 * time.Hour},
			want: []string{"Retention is 4h0m0s", "4h45m40s", "16 retries", "72h0m0s"}},
		{name: "retention shorter than an ordered message lives", cfg: rmqdedup.Config{Key: key, Mode: rmqdedup.Ordered, Retention: time.Hour},
			want: []string{"Retention is 1h0m0s", "72h0m0s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := group
			switch tt.group {
			case "":
			case "none":
				name = ""
			default:
				name = tt.group
			}
			store := tt.store
			if store == nil {
				store = memoryStore(t)
			}
			tt.cfg.Observer = rmqdedup.NopObserver{}
			d, err := rmqdedup.New(store, name, tt.cfg)
			if err == nil || d != nil {
				t.Fatalf("New returned %v, %v", d, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestConfigTellsAllProblemsAtOnce(t *testing.T) {
	_, err := rmqdedup.New(nil, "order group", rmqdedup.Config{
		Namespace: "%", MaxPendingWrites: -1, ManualCommit: true, Scope: 9, NoKey: 9, Outage: 9, MaxReconsumeTimes: 2, Lease: 24 * time.Hour,
		Retention: time.Second,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"store is nil", "order group", "Namespace", "Key is nil", "MaxPendingWrites", "ManualCommit", "Scope", "NoKey", "Outage",
		"Lease is 24h0m0s, longer than the 14m40s", "Retention is 1s, shorter than the 40s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "ConsumeTimeout") {
		t.Errorf("the error names a setting that is sound:\n%v", err)
	}
}

func TestCase13LeaseOfZero(t *testing.T) {
	// In a Config zero is the default; in a request it is refused.
	d, err := rmqdedup.New(memoryStore(t), group, rmqdedup.Config{Key: rmqdedup.Keys, Lease: 0, Retention: 0, Observer: rmqdedup.NopObserver{}})
	if err != nil || d == nil {
		t.Fatal(err)
	}
	tests := []struct {
		name       string
		r          rmqdedup.Request
		resolution time.Duration
		lease      string // what ValidateLease says; "" for nothing
		retention  string
	}{
		{name: "zero", resolution: time.Millisecond, lease: "the lease is 0s", retention: "the retention is 0s"},
		{name: "negative", r: rmqdedup.Request{Lease: -time.Second, Retention: -time.Minute}, lease: "the lease is -1s", retention: "the retention is -1m0s"},
		{name: "below the resolution", r: rmqdedup.Request{Lease: 999 * time.Microsecond, Retention: 998 * time.Microsecond}, resolution: time.Millisecond,
			lease: "999µs, below the 1ms", retention: "998µs, below the 1ms"},
		{name: "negative grace", r: rmqdedup.Request{Lease: time.Second, Grace: -time.Second, Retention: time.Second}, lease: "the grace is -1s"},
		{name: "at the resolution", r: rmqdedup.Request{Lease: time.Millisecond, Retention: time.Millisecond}, resolution: time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := func(err error, want string) {
				t.Helper()
				switch {
				case want == "" && err != nil:
					t.Errorf("refused: %v", err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, rmqdedup.ErrBadRequest)):
					t.Errorf("the error is %v, want one with %q", err, want)
				}
			}
			check(tt.r.ValidateLease(tt.resolution), tt.lease)
			check(tt.r.ValidateRetention(tt.resolution), tt.retention)
		})
	}
}

// New works on a copy: what is done to the Config's slice afterwards changes nothing.
func TestConfigIsCopied(t *testing.T) {
	levels := rmqdedup.DefaultDelayLevels()
	store := memoryStore(t)
	d, err := rmqdedup.New(store, group, rmqdedup.Config{Key: rmqdedup.Keys, Observer: rmqdedup.NopObserver{}, DelayLevels: levels})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(levels, rmqdedup.DefaultDelayLevels()) {
		t.Errorf("New changed the delay levels to %v", levels)
	}
	clear(levels)
	claim := rmqdedup.Request{Key: keyOf("1"), Owner: rmqdedup.NewOwner(), Lease: 50 * time.Second}
	if _, err := store.Acquire(context.Background(), []rmqdedup.Request{claim}); err != nil {
		t.Fatal(err)
	}
	wantReply(t, concurrently(d.Wrap(answer(consumer.ConsumeSuccess, nil)), order("1")), reply{result: consumer.ConsumeRetryLater, level: 5})
}

func TestWrapRefusesNil(t *testing.T) {
	d, err := rmqdedup.New(memoryStore(t), group, rmqdedup.Config{Key: rmqdedup.Keys, Observer: rmqdedup.NopObserver{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Wrap(nil) does not panic")
		}
	}()
	d.Wrap(nil)
}
