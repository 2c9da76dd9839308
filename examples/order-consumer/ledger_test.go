package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	open := func(path string) *ledger {
		l, err := openLedger(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.close)
		return l
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, pair := range map[string][2]*ledger{ // the one that writes, the one that reads
		"in memory":     func() [2]*ledger { l := open(""); return [2]*ledger{l, l} }(),
		"one process":   func() [2]*ledger { l := open(path + "1"); return [2]*ledger{l, l} }(),
		"two of a kind": {open(path + "2"), open(path + "2")},
	} {
		writer, reader := pair[0], pair[1]
		do(writer.succeeded([]string{"a", "b"}))
		do(reader.refresh())
		do(reader.succeeded([]string{"a"}))
		do(writer.acknowledged([]string{"a/1", "a/2"}))
		do(writer.acknowledged([]string{"a/1"})) // delivered again
		do(writer.deadLettered([]string{"b/1"}))
		do(reader.refresh())
		if a, b, c := reader.successes("a"), reader.successes("b"), reader.successes("c"); a != 2 || b != 1 || c != 0 {
			t.Errorf("%s: a, b and c succeeded %d, %d and %d times, want 2, 1 and 0", name, a, b, c)
		}
		if open, dead := reader.standing([]string{"a/1", "a/2", "b/1", "b/2"}); open != 1 || dead != 1 {
			t.Errorf("%s: open %d, dead-lettered %d, want 1 and 1", name, open, dead)
		}
	}
}

func TestLedgerReadsWholeLinesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, step := range []struct {
		add  string
		want int
	}{{"success a\nsucc", 1}, {"", 1}, {"ess a\n", 2}} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(step.add); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := l.refresh(); err != nil {
			t.Fatal(err)
		}
		if n := l.successes("a"); n != step.want {
			t.Errorf("after %q: %d successes, want %d", step.add, n, step.want)
		}
	}
}

func TestLedgerRefusesAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path, []byte("Dear diary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.refresh(); err == nil || !strings.Contains(err.Error(), "-ledger") {
		t.Errorf("a file of something else: %v", err)
	}
}
