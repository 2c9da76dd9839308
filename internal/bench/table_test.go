package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// sixRounds are those of a cell whose ratios are 1.4, 1.5 and 1.6, twice each.
func sixRounds(t *testing.T) []result {
	t.Helper()
	c := &cell{name: "store=redis/handlers=20", rows: []row{
		faster("operations : floor", "ops/s", atLeast(1.3)),
		faster("operations : floor, a lot", "ops/s", atLeast(1.45)),
		sooner("p99 : floor", "p99-us", reported()),
	}}
	var rounds []round
	for _, product := range []float64{14000, 15000, 16000, 14000, 15000, 16000} {
		rounds = append(rounds, round{figures{"ops/s": 10000, "p99-us": 30.04}, figures{"ops/s": product, "p99-us": 20}})
	}
	rows, err := results(c, rounds)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestTable(t *testing.T) {
	old := recorded{
		{"store=redis/handlers=20", "operations : floor"}: {low: 1.2, median: 1.25, high: 1.39},
		{"store=redis/handlers=20", "p99 : floor"}:        {low: 1.4, median: 1.5, high: 1.6},
	}
	var b strings.Builder
	if err := writeTable(&b, sixRounds(t), old); err != nil {
		t.Fatal(err)
	}
	const want = `
| cell                    | product : reference       | median | 95 % interval | target      | verdict | recorded           | reference | product | unit   |
| ----------------------- | ------------------------- | ------ | ------------- | ----------- | ------- | ------------------ | --------- | ------- | ------ |
| store=redis/handlers=20 | operations : floor        | 1.50   | 1.40 to 1.60  | low >= 1.3  | ok      | +20% beyond spread | 10000     | 15000   | ops/s  |
| store=redis/handlers=20 | operations : floor, a lot | 1.50   | 1.40 to 1.60  | low >= 1.45 | FAIL    | -                  | 10000     | 15000   | ops/s  |
| store=redis/handlers=20 | p99 : floor               | 1.50   | 1.50 to 1.50  | -           | -       | +0%                | 30.0      | 20.0    | p99-us |
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("the table is%s\nwant%s", got, want)
	}
}

func TestFailures(t *testing.T) {
	want := []string{"store=redis/handlers=20, operations : floor, a lot: 1.40 to 1.60, and the target is low >= 1.45"}
	if got := failures(sixRounds(t)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAnUnsureIntervalSaysSo(t *testing.T) {
	if got := estimateOf([]float64{1, 2, 3}).interval(); got != "1.00 to 3.00 (75 %)" {
		t.Errorf("of three rounds: %q", got)
	}
}

func TestRawOutput(t *testing.T) {
	var b strings.Builder
	rounds := []round{{figures{"ops/s": 10000}, figures{"ops/s": 12345.5, "p99-us": 20}}, {figures{"ops/s": 10001}, figures{"ops/s": 12346, "p99-us": 0.25}}}
	if err := writeRounds(&b, "store=redis/handlers=20", rounds); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"BenchmarkBench/store=redis/handlers=20/side=reference\t1\t10000 ops/s",
		"BenchmarkBench/store=redis/handlers=20/side=product\t1\t12345.5 ops/s\t20 p99-us",
		"BenchmarkBench/store=redis/handlers=20/side=reference\t1\t10001 ops/s",
		"BenchmarkBench/store=redis/handlers=20/side=product\t1\t12346 ops/s\t0.25 p99-us", "",
	}, "\n")
	if b.String() != want {
		t.Errorf("the raw output is\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := writeHeader(&b); err != nil {
		t.Fatal(err)
	}
	for i, line := range slices.Collect(strings.Lines(b.String())) {
		if key := []string{"goos: ", "goarch: ", "pkg: ", "cpu: "}[i]; !strings.HasPrefix(line, key) || len(line) < len(key)+2 {
			t.Errorf("line %d of the header is %q", i+1, line)
		}
	}
}

func TestARecordedTableIsReadAgain(t *testing.T) {
	first, second := cells()[0], cells()[1]
	measured := func(c cell, low, median, high float64) result {
		return result{cell: c.name, row: c.rows[0], estimate: estimate{low: low, median: median, high: high}}
	}
	path := t.TempDir() + "/recorded.txt"
	cfg := &config{record: path, rounds: 10}
	write := func(rows ...result) recorded {
		t.Helper()
		old, err := readRecorded(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := record(cfg, rows, old); err != nil {
			t.Fatal(err)
		}
		written, err := readRecorded(path)
		if err != nil {
			t.Fatal(err)
		}
		return written
	}
	write(measured(first, 1, 2, 3), measured(second, 4, 5, 6))
	got := write(measured(second, 7, 8.5, 9), result{cell: "no longer there"})
	want := recorded{
		{first.name, first.rows[0].what}:   {low: 1, median: 2, high: 3},
		{second.name, second.rows[0].what}: {low: 7, median: 8.5, high: 9},
	}
	if !maps.Equal(got, want) {
		t.Errorf("read again: %v, want %v", got, want)
	}
	for _, bad := range []string{"cell\twhat\t1\t2", "cell\twhat\t1\t2\tx"} {
		if _, err := parseRecorded(strings.NewReader("# cell\n\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestNoRecordedTable(t *testing.T) {
	old, err := readRecorded(t.TempDir() + "/none")
	if err != nil {
		t.Fatal(err)
	}
	if got := old.change(&sixRounds(t)[0]); got != "-" {
		t.Errorf("the change is %q", got)
	}
}

// A run that is broken off leaves no raw output that would pass for a whole one.
func TestRawOutputIsKeptOnlyWhenComplete(t *testing.T) {
	dir := t.TempDir()
	for _, complete := range []bool{false, true} {
		r, err := newRaw(dir + "/raw.txt")
		if err != nil {
			t.Fatal(err)
		}
		if complete {
			if err := r.keep(); err != nil {
				t.Error(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if kept := len(files) == 1 && files[0].Name() == "raw.txt"; kept != complete || len(files) > 1 {
			t.Errorf("complete is %v, and there are %v", complete, files)
		}
	}
}
