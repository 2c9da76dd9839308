package rmqdedup_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

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

func TestCase28RetentionShorterThanStorage(t *testing.T) {
	tests := []struct {
		name string
		cfg  rmqdedup.Config
		warn []string // what each warning has to say
	}{
		{name: "defaults"},
		{name: "below the storage time", cfg: rmqdedup.Config{Retention: 48 * time.Hour}, warn: []string{"Retention is 48h0m0s, shorter than the 72h0m0s"}},
		{name: "a broker that stores for longer", cfg: rmqdedup.Config{StorageTime: 200 * time.Hour}, warn: []string{"Retention is 96h0m0s, shorter than the 200h0m0s"}},
		{name: "at the storage time", cfg: rmqdedup.Config{Retention: 72 * time.Hour}},
		{name: "not renewed", cfg: rmqdedup.Config{NoRenewal: true}, warn: []string{"NoRenewal with a Lease of 10m0s"}},
		{name: "not renewed, but longer than any handler", cfg: rmqdedup.Config{NoRenewal: true, Lease: 16 * time.Minute}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var heard hearing
			tt.cfg.Key, tt.cfg.Observer = rmqdedup.Keys, &heard
			if _, err := rmqdedup.New(memoryStore(t), group, tt.cfg); err != nil {
				t.Fatal(err)
			}
			warnings := heard.of(rmqdedup.EventWarning)
			if len(warnings) != len(tt.warn) {
				t.Fatalf("the warnings are %+v", warnings)
			}
			for i, want := range tt.warn {
				if !strings.Contains(warnings[i].Detail, want) {
					t.Errorf("the warning is %q, want one with %q", warnings[i].Detail, want)
				}
			}
		})
	}
}

func TestConfiguredTellsTheFigures(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  rmqdedup.Config
		want []string
	}{
		"defaults": {want: []string{"concurrent consumer", "17 attempts", "4h59m40s", "lease 1m0s, renewed every 20s", "retention 96h0m0s", "up to 6h59m40s"}},
		"ordered":  {cfg: rmqdedup.Config{Mode: rmqdedup.Ordered}, want: []string{"ordered consumer", "without a limit", "72h0m0s"}},
		"shadow, not renewed": {cfg: rmqdedup.Config{Shadow: true, NoRenewal: true},
			want: []string{"lease 10m0s, not renewed", "shadow mode: nothing is suppressed"}},
	} {
		t.Run(name, func(t *testing.T) {
			var heard hearing
			tt.cfg.Key, tt.cfg.Observer = rmqdedup.Keys, &heard
			if _, err := rmqdedup.New(memoryStore(t), group, tt.cfg); err != nil {
				t.Fatal(err)
			}
			told := heard.of(rmqdedup.EventConfigured)
			if len(told) != 1 || told[0].Group != group {
				t.Fatalf("told %+v", told)
			}
			for _, want := range tt.want {
				if !strings.Contains(told[0].Detail, want) {
					t.Errorf("%q does not say %q", told[0].Detail, want)
				}
			}
		})
	}
}

func TestBudget(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	tests := []struct {
		name string
		cfg  rmqdedup.Config
		want rmqdedup.Budget
	}{
		{"the client's default", rmqdedup.Config{}, rmqdedup.Budget{Attempts: 17, Retries: 4*h + 45*m + 40*s, LastWait: 14 * m, Outlast: 4*h + 59*m + 40*s,
			Outage: 4*h + 59*m + 40*s + 16*(7*m+30*s)}},
		{"as -1", rmqdedup.Config{MaxReconsumeTimes: -1}, rmqdedup.Budget{Attempts: 17, Retries: 4*h + 45*m + 40*s, LastWait: 14 * m, Outlast: 4*h + 59*m + 40*s,
			Outage: 4*h + 59*m + 40*s + 2*h}},
		{"3 retries", rmqdedup.Config{MaxReconsumeTimes: 3}, rmqdedup.Budget{Attempts: 4, Retries: 100 * s, LastWait: 14 * m, Outlast: 15*m + 40*s,
			Outage: 15*m + 40*s + 22*m + 30*s}},
		{"none", rmqdedup.Config{MaxReconsumeTimes: rmqdedup.NoReconsume}, rmqdedup.Budget{Attempts: 1, LastWait: 14 * m, Outlast: 14 * m, Outage: 14 * m}},
		{"beyond the highest level", rmqdedup.Config{MaxReconsumeTimes: 4, DelayLevels: []time.Duration{1 * s, 2 * s, 3 * s, 4 * s}},
			rmqdedup.Budget{Attempts: 5, Retries: 15 * s, LastWait: 14 * m, Outlast: 14*m + 15*s, Outage: 14*m + 15*s + 30*m}},
		{"a shorter consume timeout", rmqdedup.Config{MaxReconsumeTimes: 1, ConsumeTimeout: m}, rmqdedup.Budget{Attempts: 2, Retries: 10 * s, LastWait: 56 * s,
			Outlast: 66 * s, Outage: 96 * s}},
		{"ordered without a limit", rmqdedup.Config{Mode: rmqdedup.Ordered}, rmqdedup.Budget{Retries: 72 * h, Outlast: 72 * h, Outage: 72 * h}},
		{"ordered, 3", rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: 3}, rmqdedup.Budget{Attempts: 5, Retries: 4 * 67 * s, LastWait: 14 * m,
			Outlast: 14*m + 4*67*s, Outage: 72 * h}},
		{"ordered, none", rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: rmqdedup.NoReconsume}, rmqdedup.Budget{Attempts: 2, Retries: 67 * s, LastWait: 14 * m,
			Outlast: 14*m + 67*s, Outage: 72 * h}},
		{"a different lease", rmqdedup.Config{Mode: rmqdedup.Ordered, MaxReconsumeTimes: 1, Lease: 10 * s, SuspendPause: 2 * s},
			rmqdedup.Budget{Attempts: 3, Retries: 2 * 13 * s, LastWait: 14 * m, Outlast: 14*m + 26*s, Outage: 72 * h}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Key, tt.cfg.Observer = rmqdedup.Keys, rmqdedup.NopObserver{}
			d, err := rmqdedup.New(memoryStore(t), group, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := d.Budget()
			public := rmqdedup.Budget{Attempts: got.Attempts, Retries: got.Retries, LastWait: got.LastWait, Outlast: got.Outlast, Outage: got.Outage}
			if public != tt.want {
				t.Errorf("got  %+v\nwant %+v", public, tt.want)
			}
		})
	}
}

// A number of attempts that no message ever sees must neither overflow the figures nor take the time to add them up.
func TestBudgetOfManyRetries(t *testing.T) {
	for _, mode := range []rmqdedup.Mode{rmqdedup.Concurrent, rmqdedup.Ordered} {
		for _, n := range []int32{100_000, 1_000_000_000, math.MaxInt32 - 1, math.MaxInt32} {
			begin := time.Now()
			d, err := rmqdedup.New(memoryStore(t), group, rmqdedup.Config{
				Key: rmqdedup.Keys, Mode: mode, MaxReconsumeTimes: n, Retention: math.MaxInt64, Observer: rmqdedup.NopObserver{},
			})
			if err != nil {
				t.Errorf("%v, %d retries: %v", mode, n, err)
				continue
			}
			if b := d.Budget(); b.Retries <= 0 || b.Outlast < b.Retries || b.Outage < b.Retries && mode == rmqdedup.Concurrent {
				t.Errorf("%v, %d retries: %+v", mode, n, b)
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("%v, %d retries: New took %v", mode, n, took)
			}
		}
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

// TestConsumerOptions applies the options to the client's own, whose type is not exported.
func TestConsumerOptions(t *testing.T) {
	tests := []struct {
		name string
		cfg  rmqdedup.Config
		want map[string]any
	}{
		{name: "defaults", want: map[string]any{
			"GroupName": group, "Namespace": "", "ConsumerModel": consumer.Clustering, "ConsumeOrderly": false, "MaxReconsumeTimes": int32(-1),
			"ConsumeTimeout": 15 * time.Minute, "AutoCommit": true, "SuspendCurrentQueueTimeMillis": time.Second,
		}},
		{name: "everything", cfg: rmqdedup.Config{
			Mode: rmqdedup.Ordered, Namespace: "shop", MaxReconsumeTimes: 5, ConsumeTimeout: 5 * time.Minute, SuspendPause: 2 * time.Second,
		}, want: map[string]any{
			"GroupName": group, "Namespace": "shop", "ConsumerModel": consumer.Clustering, "ConsumeOrderly": true, "MaxReconsumeTimes": int32(5),
			"ConsumeTimeout": 5 * time.Minute, "AutoCommit": true, "SuspendCurrentQueueTimeMillis": 2 * time.Second,
		}},
		{name: "never again", cfg: rmqdedup.Config{MaxReconsumeTimes: rmqdedup.NoReconsume}, want: map[string]any{"MaxReconsumeTimes": int32(0)}},
		{name: "what 0 means", cfg: rmqdedup.Config{MaxReconsumeTimes: 0}, want: map[string]any{"MaxReconsumeTimes": int32(-1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Key, tt.cfg.Observer = rmqdedup.Keys, rmqdedup.NopObserver{}
			d, err := rmqdedup.New(memoryStore(t), group, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			// The opposite of everything comes first, so that what is not said is noticed.
			opts := append([]consumer.Option{
				consumer.WithConsumerModel(consumer.BroadCasting), consumer.WithConsumerOrder(tt.cfg.Mode != rmqdedup.Ordered), consumer.WithAutoCommit(false),
				consumer.WithMaxReconsumeTimes(99), consumer.WithConsumeTimeout(time.Second), consumer.WithSuspendCurrentQueueTimeMillis(time.Hour),
			}, d.ConsumerOptions()...)
			got := applied(opts)
			for field, want := range tt.want {
				if v := got.FieldByName(field).Interface(); v != want {
					t.Errorf("%s is %v, want %v", field, v, want)
				}
			}
		})
	}
}

// applied returns the client's options after all of opts.
func applied(opts []consumer.Option) reflect.Value {
	target := reflect.New(reflect.TypeOf(opts[0]).In(0).Elem())
	for _, o := range opts {
		reflect.ValueOf(o).Call([]reflect.Value{target})
	}
	return target.Elem()
}

func TestPushConsumerTakesTheOptions(t *testing.T) {
	rlog.SetLogLevel("fatal")
	d, err := rmqdedup.New(memoryStore(t), group, rmqdedup.Config{Key: rmqdedup.Keys, Namespace: "shop", Observer: rmqdedup.NopObserver{}})
	if err != nil {
		t.Fatal(err)
	}
	// Nobody listens there; the consumer is not started.
	c, err := rocketmq.NewPushConsumer(append(d.ConsumerOptions(), consumer.WithNameServer([]string{"127.0.0.1:1"}))...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Subscribe("orders", consumer.MessageSelector{}, d.Wrap(answer(consumer.ConsumeSuccess, nil))); err != nil {
		t.Error(err)
	}
}
