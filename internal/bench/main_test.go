package main

import (
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"-run", "("}, exitUsage, "-run"},
		{[]string{"-rounds", "0"}, exitUsage, "-rounds"},
		{[]string{"-round", "1ns"}, exitUsage, "-round"},
		{[]string{"-run", "nosuchcell"}, exitUsage, "-list"},
		{[]string{"redis"}, exitUsage, "redis"},
		{[]string{"-h"}, exitGood, "-rounds"},
	} {
		var stdout, stderr strings.Builder
		if got := run(c.args, &stdout, &stderr); got != c.status || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%q: status %d, %q", c.args, got, stderr.String())
		}
	}
}

func TestList(t *testing.T) {
	var stdout, stderr strings.Builder
	if got := run([]string{"-list", "-run", "^store=redis"}, &stdout, &stderr); got != exitGood {
		t.Fatal(stderr.String())
	}
	if want := "store=redis/handlers=1\nstore=redis/handlers=20\nstore=redis/handlers=64\n"; stdout.String() != want {
		t.Errorf("%q, want %q", stdout.String(), want)
	}
}

// A cell whose server is not there is told by name, and is no good run.
func TestACellThatCannotBeMeasuredFails(t *testing.T) {
	t.Setenv("RMQDEDUP_REDIS", "")
	var stdout, stderr strings.Builder
	if got := run([]string{"-run", "^store=redis/handlers=1$", "-recorded", t.TempDir() + "/none"}, &stdout, &stderr); got != exitBad {
		t.Errorf("status %d", got)
	}
	if want := "could not be measured: store=redis/handlers=1: RMQDEDUP_REDIS names no server"; !strings.Contains(stdout.String(), want) {
		t.Errorf("%q does not say %q", stdout.String(), want)
	}
}

// The wrapper's cell needs no server: all of a run, with its files.
func TestARun(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr strings.Builder
	args := []string{"-run", "^wrapper", "-rounds", "2", "-round", "1ms", "-o", dir + "/raw.txt", "-record", dir + "/recorded.txt", "-recorded", dir + "/recorded.txt"}
	for i, recordedColumn := range []string{"| -", "%"} { // the second run finds what the first one recorded
		stdout.Reset()
		if got := run(args, &stdout, &stderr); got != exitGood {
			t.Fatalf("status %d: %s%s", got, stdout.String(), stderr.String())
		}
		lines := strings.Split(stdout.String(), "\n")
		if len(lines) != 5 || !strings.HasPrefix(lines[2], "| wrapper/store=memory/handlers=1 ") || !strings.Contains(lines[2], recordedColumn) {
			t.Errorf("run %d: the table is\n%s", i+1, stdout.String())
		}
	}
}
