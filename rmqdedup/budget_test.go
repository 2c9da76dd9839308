package rmqdedup_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

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
			without := tt.cfg
			without.Key = nil // a janitor knows of none
			if b, err := without.Budget(); err != nil || b != got {
				t.Errorf("of the Config alone: %+v, %v; want %+v", b, err, got)
			}
		})
	}
}

// A number of attempts that no message ever sees must not overflow the figures.
func TestBudgetOfManyRetries(t *testing.T) {
	for _, mode := range []rmqdedup.Mode{rmqdedup.Concurrent, rmqdedup.Ordered} {
		for _, n := range []int32{100_000, 1_000_000_000, math.MaxInt32 - 1, math.MaxInt32} {
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
		}
	}
}

func TestBudgetOfAConfigAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg   rmqdedup.Config
		lease time.Duration
		sum   string
	}{
		"defaults":    {lease: time.Minute, sum: "16 retries at delay levels from 3 on: 4h45m40s; the last attempt's wait: 14m0s"},
		"not renewed": {cfg: rmqdedup.Config{NoRenewal: true}, lease: 10 * time.Minute, sum: "16 retries"},
		"longer than the retries outlast": {cfg: rmqdedup.Config{MaxReconsumeTimes: 3, Lease: time.Hour}, lease: time.Hour,
			sum: "3 retries at delay levels from 3 on: 1m40s; the last attempt's wait: 14m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := tt.cfg.Budget()
			if err != nil || b.Lease != tt.lease || !strings.Contains(b.Sum(), tt.sum) {
				t.Errorf("lease %v, sum %q, error %v; want %v and %q", b.Lease, b.Sum(), err, tt.lease, tt.sum)
			}
		})
	}
}

func TestBudgetRefusesFigures(t *testing.T) {
	_, err := rmqdedup.Config{
		Lease: -1, ConsumeTimeout: -2, MaxReconsumeTimes: -7, DelayLevels: []time.Duration{time.Second, 0}, Mode: rmqdedup.Broadcasting, ManualCommit: true,
	}.Budget()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Lease is -1ns", "ConsumeTimeout is -2ns", "MaxReconsumeTimes is -7", "level 2 is 0s", "Mode is Broadcasting"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	for _, other := range []string{"Key", "ManualCommit", "group"} {
		if strings.Contains(err.Error(), other) {
			t.Errorf("the error tells of %q, which is New's business:\n%v", other, err)
		}
	}
}
