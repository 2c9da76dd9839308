package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// words splits a command line at its blanks; "+" in a word is a blank of its own.
func words(line string) []string {
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "+", " ")
	}
	return args
}

func TestFlagsAreTakenAsGiven(t *testing.T) {
	cfg, err := parseFlags(words("-namesrv 10.0.0.1:9876,127.0.0.1:9877 -topic t -group g -store redis://h:1/0 -key message-id -mode ordered " +
		"-batch 16 -handlers 7 -fail 0.5 -max-reconsume 0 -delay-levels 1s+2m+1h+2d -timeout 1m -seed 9 -produce 10 -duplicates 1"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"10.0.0.1:9876", "127.0.0.1:9877"}; !slices.Equal(cfg.namesrv, want) {
		t.Errorf("name servers: %q, want %q", cfg.namesrv, want)
	}
	if want := []time.Duration{time.Second, 2 * time.Minute, time.Hour, 48 * time.Hour}; !slices.Equal(cfg.delayLevels, want) {
		t.Errorf("delay levels: %v, want %v", cfg.delayLevels, want)
	}
	if cfg.mode != rmqdedup.Ordered || cfg.queues() != 7 {
		t.Errorf("%v consumer of %d queues, want an ordered one of 7", cfg.mode, cfg.queues())
	}
	if n := cfg.maxReconsumeTimes(); n != rmqdedup.NoReconsume {
		t.Errorf("-max-reconsume 0 gives %d, want NoReconsume", n)
	}
	if !cfg.migrate || cfg.janitor != "" {
		t.Errorf("without flags for them: migrate %v, janitor %q", cfg.migrate, cfg.janitor)
	}
	if cfg.ownNames {
		t.Error("names that were given are taken for the run's own, which it removes")
	}
}

func TestFlagsOfTheTable(t *testing.T) {
	for _, store := range []string{"mysql://user:hush@h:1/db?table=t", "user:hush@tcp(h:1)/db?table=t"} {
		cfg, err := parseFlags([]string{"-store", store, "-migrate=false", "-janitor", "@every 30s"})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.store != store || cfg.migrate || cfg.janitor != "@every 30s" {
			t.Errorf("store %s, migrate %v, janitor %q", cfg.store, cfg.migrate, cfg.janitor)
		}
		if said := cfg.describe(); !strings.Contains(said, "store mysql://h:1/db,") {
			t.Errorf("%s is not shown as what it is: %s", store, said)
		}
	}
}

// That a table is not cleaned is said where it matters, and nowhere else.
func TestUncleanedTableIsTold(t *testing.T) {
	const told = "no janitor runs here"
	inMemory, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want bool
	}{
		{"-store mysql://h/db", true}, // what decides is that the store can be swept, as the one in memory can
		{"-store mysql://h/db -janitor @hourly", false},
		{"-store memory://", false},
	} {
		cfg, err := parseFlags(words(c.args))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cfg.newJanitor(inMemory, rmqdedup.Config{}, &tally{}); err != nil {
			t.Fatal(err)
		}
		if said := cfg.describe(); strings.Contains(said, told) != c.want {
			t.Errorf("%s: want %v that it is told: %s", c.args, c.want, said)
		}
	}
}

func TestFlagsEachRunHasItsOwnNames(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		cfg, err := parseFlags(words("-namesrv localhost:9876"))
		if err != nil {
			t.Fatal(err)
		}
		if !cfg.ownNames || cfg.delayLevels != nil || cfg.seed == 0 {
			t.Errorf("defaults: own names %v, delay levels %v, seed %d", cfg.ownNames, cfg.delayLevels, cfg.seed)
		}
		for _, name := range []string{cfg.topic, cfg.group, cfg.run, cfg.instance("consumer")} {
			if seen[name] {
				t.Errorf("two runs have %q", name)
			}
			seen[name] = true
		}
	}
}

func TestFlagsInProcess(t *testing.T) {
	cfg, err := parseFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.inProcess || cfg.lease != inProcessLease || cfg.store != "memory://" {
		t.Errorf("no flag: in process %v, lease %v, store %s", cfg.inProcess, cfg.lease, cfg.store)
	}
	if cfg, err = parseFlags(words("-lease 5s -delay-levels 1s+2s")); err != nil {
		t.Fatal(err)
	}
	if cfg.lease != 5*time.Second || len(cfg.delayLevels) != 2 {
		t.Errorf("what was given is not kept: lease %v, delay levels %v", cfg.lease, cfg.delayLevels)
	}
	if cfg, err = parseFlags(words("-namesrv 127.0.0.1:9876")); err != nil {
		t.Fatal(err)
	}
	if cfg.inProcess || cfg.lease != rmqdedup.DefaultLease {
		t.Errorf("with a name server: in process %v, lease %v", cfg.inProcess, cfg.lease)
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	const ok = "-namesrv 127.0.0.1:9876 "
	for _, c := range []struct {
		args string
		want []string // in the error
	}{
		{"-namesrv=", []string{"-namesrv", "make up", "go run ./examples/order-consumer -namesrv"}},
		{"-member -topic t -group g", []string{"-member", "own process", "give -namesrv"}},
		{"-ledger l -crash-after 3", []string{"-ledger", "-crash-after", "give -namesrv"}},
		{"-batch 0 -mode both", []string{"2 things", "-batch 0", "-mode"}},
		{"more", []string{`"more"`, "-h"}},
		{"-namesrv -store memory://", []string{"-namesrv has no value", "-store follows"}},
		{"-namesrv 127.0.0.1", []string{"-namesrv 127.0.0.1:", "give host:port"}},
		{ok + "-nonsense", []string{"-nonsense", "-h"}},
		{ok + "more", []string{`"more"`, "-h"}},
		{ok + "-batch few", []string{`"few"`, "-batch", "1 to 1024"}},
		{ok + "-batch 0", []string{"-batch 0", "1 to 1024"}},
		{ok + "-handlers 0", []string{"-handlers 0"}},
		{ok + "-handle-time 5", []string{`"5"`, "-handle-time", "such as 2ms"}},
		{ok + "-handle-time -5s", []string{"-handle-time -5s"}},
		{ok + "-fail 1.5", []string{"-fail 1.5", "0 to 1"}},
		{ok + "-fail NaN", []string{"-fail NaN", "0 to 1"}},
		{ok + "-duplicates -1", []string{"-duplicates -1", "0 to 1"}},
		{ok + "-max-reconsume -2", []string{"-max-reconsume -2"}},
		{ok + "-produce 0", []string{"-produce 0"}},
		{ok + "-key order", []string{`-key "order"`, "message-id or order-id"}},
		{ok + "-mode both", []string{`-mode "both"`, "concurrent or ordered"}},
		{ok + "-lease 0s", []string{"-lease 0s"}},
		{ok + "-timeout 0s", []string{"-timeout 0s"}},
		{ok + "-delay-levels 1s+soon", []string{"-delay-levels", `"soon"`, "messageDelayLevel"}},
		{ok + "-delay-levels 0s", []string{"-delay-levels", `"0s"`}},
		{ok + "-topic a/b", []string{`-topic "a/b"`}},
		{ok + "-janitor daily", []string{`-janitor "daily"`, "@every 1m30s"}},
		{ok + "-janitor 5+*+*+*", []string{`-janitor "5 * * *"`, "five fields"}},
		{ok + "-janitor @hourly -janitor=bad -batch 0", []string{"2 things", `-janitor "bad"`, "-batch 0"}},
		{ok + "-migrate=perhaps", []string{`"perhaps"`, "-migrate"}},
		{ok + "-store=", []string{"-store is empty"}},
		{ok + "-member", []string{"-member", "-topic", "-group"}},
		{ok + "-member -topic t -group g", []string{"-member", "memory://"}},
		{ok + "-batch 0 -fail 2", []string{"2 things", "-batch 0", "-fail 2"}}, // all at once
	} {
		_, err := parseFlags(words(c.args))
		if !errors.As(err, new(*usageError)) {
			t.Errorf("%q: %v, want a usage error", c.args, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: the error lacks %q: %v", c.args, want, err)
			}
		}
	}
}

func TestFlagsShowNoPassword(t *testing.T) {
	for _, store := range []string{
		"redis://user:hush@h:1/0", "redis://:hush@h:1/0?dial_timeout=1s", "mysql://u:hush@h/db", "redis://h/0?password=hush", "redis://u:hu%zzsh@h", "u:hush@tcp(h)/db",
	} {
		cfg, err := parseFlags([]string{"-namesrv", "127.0.0.1:9876", "-store", store})
		if err != nil {
			t.Fatal(err)
		}
		if s := cfg.describe(); strings.Contains(s, "hush") || strings.Contains(s, "zzsh") {
			t.Errorf("%s is shown: %s", store, s)
		}
		if _, err = parseFlags([]string{"-namesrv", "127.0.0.1:9876", store}); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s without its flag: %v", store, err)
		}
	}
}
