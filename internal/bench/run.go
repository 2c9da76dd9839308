package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// measureAll measures the cells and writes the table. It says whether all is good: each cell was measured, and none of its rows has failed.
// The error is for what is no cell's fault.
func measureAll(ctx context.Context, cfg *config, chosen []cell, stdout, stderr io.Writer) (good bool, err error) {
	old, err := readRecorded(cfg.recorded)
	if err != nil {
		return false, err
	}
	raw, err := newRaw(cfg.raw)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()

	var rows []result
	var broken []string
	begin := time.Now()
	for i := range chosen {
		c := &chosen[i]
		fmt.Fprintf(stderr, "%5.0fs  %d/%d  %s\n", time.Since(begin).Seconds(), i+1, len(chosen), c.name)
		measured, rounds, err := c.results(ctx, cfg, stderr)
		if ctx.Err() != nil {
			return false, errors.Join(errors.New("interrupted"), err)
		}
		if err != nil {
			broken = append(broken, fmt.Sprintf("%s: %v", c.name, err))
			fmt.Fprintf(stderr, "        could not be measured: %v\n", err)
			continue
		}
		for i := range measured {
			fmt.Fprintf(stderr, "        %s\n", measured[i].brief())
		}
		rows = append(rows, measured...)
		if err := writeRounds(raw, c.name, rounds); err != nil {
			return false, err
		}
	}
	if err := raw.keep(); err != nil {
		return false, err
	}
	if err := writeTable(stdout, rows, old); err != nil {
		return false, err
	}
	failed := failures(rows)
	tell(stdout, "missed the target", failed)
	tell(stdout, "could not be measured", broken)
	if cfg.record != "" {
		if err := record(cfg, rows, old); err != nil {
			return false, err
		}
	}
	return len(failed)+len(broken) == 0, nil
}

// results measures a cell.
func (c *cell) results(ctx context.Context, cfg *config, stderr io.Writer) ([]result, []round, error) {
	s := &stage{note: func(format string, args ...any) { fmt.Fprintf(stderr, "        "+format+"\n", args...) }}
	rounds, err := c.measure(ctx, s, cfg.rounds, cfg.round)
	if err != nil {
		return nil, nil, err
	}
	measured, err := results(c, rounds)
	return measured, rounds, err
}

// brief is a result in a line of its own.
func (r *result) brief() string {
	return fmt.Sprintf("%s: %s, %s; target %v; %s", r.what, short(r.median), r.interval(), r.rule, r.verdict)
}

func tell(w io.Writer, what string, which []string) {
	for _, s := range which {
		fmt.Fprintf(w, "%s: %s\n", what, s)
	}
}
