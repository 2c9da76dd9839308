package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A result is a row of the table, measured.
type result struct {
	cell string
	row
	estimate
	reference, product float64 // medians of the bare figures
	verdict            verdict
}

// results are a cell's, one a row.
func results(c *cell, rounds []round) ([]result, error) {
	all := make([]result, 0, len(c.rows))
	for _, row := range c.rows {
		values, err := row.values(rounds)
		if err != nil {
			return nil, err
		}
		r := result{cell: c.name, row: row, estimate: estimateOf(values)}
		r.verdict = row.rule.judge(r.estimate)
		bare := func(side func(round) figures) float64 {
			values := make([]float64, len(rounds))
			for i := range rounds {
				values[i] = side(rounds[i])[row.unit]
			}
			return median(values)
		}
		r.reference = bare(func(r round) figures { return r.reference })
		r.product = bare(func(r round) figures { return r.product })
		all = append(all, r)
	}
	return all, nil
}

var columns = []string{"cell", "product : reference", "median", "95 % interval", "target", "verdict", "recorded", "reference", "product", "unit"}

// fields are a result's, by column.
func (r *result) fields(old recorded) []string {
	return []string{
		r.cell, r.what, short(r.median), r.interval(), r.rule.String(), string(r.verdict), old.change(r),
		short(r.reference), short(r.product), r.unit,
	}
}

// interval says so if it is of another confidence than the table's.
func (e estimate) interval() string {
	s := short(e.low) + " to " + short(e.high)
	if !e.sure() {
		s += fmt.Sprintf(" (%.0f %%)", 100*e.confidence)
	}
	return s
}

// short is a figure as one would say it.
func short(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// writeTable writes all results as a Markdown table, which can be read as it is.
func writeTable(w io.Writer, rows []result, old recorded) error {
	lines := [][]string{columns, make([]string, len(columns))}
	for i := range rows {
		lines = append(lines, rows[i].fields(old))
	}
	widths := make([]int, len(columns))
	for _, line := range lines {
		for i, field := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(field))
		}
	}
	for i := range columns {
		lines[1][i] = strings.Repeat("-", widths[i])
	}
	for _, line := range lines {
		var b strings.Builder
		for i, field := range line {
			fmt.Fprintf(&b, "| %-*s ", widths[i], field)
		}
		if _, err := fmt.Fprintf(w, "%s|\n", b.String()); err != nil {
			return err
		}
	}
	return nil
}

// failures are the rows that failed, in words.
func failures(rows []result) (all []string) {
	for i := range rows {
		if r := &rows[i]; r.verdict == fail {
			all = append(all, fmt.Sprintf("%s, %s: %s to %s, and the target is %v", r.cell, r.what, short(r.low), short(r.high), r.rule))
		}
	}
	return all
}
