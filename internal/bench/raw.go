package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// benchmarkName is before the cell's in every line of the raw output.
const benchmarkName = "BenchmarkBench/"

// writeHeader begins the raw output, as go test does.
func writeHeader(w io.Writer) error {
	_, err := fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: github.com/rmqdedup/rmqdedup-go/internal/bench\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, cpu())
	return err
}

// A raw is the file of the raw output. It has its name only when it is complete.
type raw struct {
	io.Writer
	file *os.File // nil if there is to be none
	path string
}

func newRaw(path string) (*raw, error) {
	if path == "" {
		return &raw{Writer: io.Discard}, nil
	}
	f, err := os.Create(path + ".part")
	if err != nil {
		return nil, err
	}
	r := &raw{Writer: f, file: f, path: path}
	if err := writeHeader(f); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// keep gives the file its name.
func (r *raw) keep() error {
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.file.Close(), os.Rename(r.file.Name(), r.path))
	r.file = nil
	return err
}

// Close removes what has not been kept.
func (r *raw) Close() error {
	if r.file == nil {
		return nil
	}
	return errors.Join(r.file.Close(), os.Remove(r.file.Name()))
}

// cpu is the processor's name, where the system tells it.
func cpu() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// writeRounds writes a line for each measurement: benchstat -col /side compares the two sides.
func writeRounds(w io.Writer, cell string, rounds []round) error {
	for _, r := range rounds {
		for _, side := range []struct {
			name string
			figures
		}{{"reference", r.reference}, {"product", r.product}} {
			if _, err := fmt.Fprintf(w, "%s%s/side=%s\t1%s\n", benchmarkName, cell, side.name, side.figures); err != nil {
				return err
			}
		}
	}
	return nil
}

// String is how the testing package would print them.
func (f figures) String() string {
	var b strings.Builder
	for _, unit := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "\t%s %s", strconv.FormatFloat(f[unit], 'f', -1, 64), unit)
	}
	return b.String()
}
