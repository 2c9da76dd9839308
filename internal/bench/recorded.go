package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// A recorded table is that of an earlier run, with which this one is compared. It has a line for each row of the table: cell, what was compared,
// lower bound, median, upper bound, with tabs between them. Lines that begin with # are comments.
type recorded map[rowID]estimate

type rowID struct{ cell, what string }

// readRecorded reads a table from a file. That it is not there is no error: there is nothing then to compare with.
func readRecorded(path string) (recorded, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := parseRecorded(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func parseRecorded(from io.Reader) (recorded, error) {
	all := make(recorded)
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 5 {
			return nil, fmt.Errorf("line %d has %d fields, not 5", n, len(fields))
		}
		var values [3]float64
		for i := range values {
			var err error
			if values[i], err = strconv.ParseFloat(fields[2+i], 64); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		all[rowID{fields[0], fields[1]}] = estimate{low: values[0], median: values[1], high: values[2]}
	}
	return all, lines.Err()
}

// record writes the recorded table anew: what was measured now, and for the rows that were not, what was recorded before.
func record(cfg *config, rows []result, old recorded) (err error) {
	all := make(recorded)
	maps.Copy(all, old)
	for _, r := range rows {
		all[rowID{r.cell, r.what}] = r.estimate
	}
	f, err := os.Create(cfg.record)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return all.write(f, fmt.Sprintf("Last written after %d rounds of %v on %d processors, %s", cfg.rounds, cfg.round, runtime.NumCPU(), cpu()))
}

// write writes the rows that the table has today, in its order, so that parseRecorded reads them.
func (all recorded) write(w io.Writer, comment string) error {
	if _, err := fmt.Fprintf(w, "# %s\n# cell\twhat\tlow\tmedian\thigh\n", comment); err != nil {
		return err
	}
	for _, c := range cells() {
		for _, r := range c.rows {
			e, ok := all[rowID{c.name, r.what}]
			if !ok {
				continue
			}
			if _, err := fmt.Fprintf(w, "%s\t%s\t%.4g\t%.4g\t%.4g\n", c.name, r.what, e.low, e.median, e.high); err != nil {
				return err
			}
		}
	}
	return nil
}

// change says how a row differs from the recorded one. It is only told, since it may have been recorded on another machine.
func (all recorded) change(r *result) string {
	was, ok := all[rowID{r.cell, r.what}]
	if !ok || was.median == 0 {
		return "-"
	}
	change := fmt.Sprintf("%+.0f%%", 100*(r.median/was.median-1))
	if r.low > was.high || r.high < was.low {
		change += " beyond spread"
	}
	return change
}
