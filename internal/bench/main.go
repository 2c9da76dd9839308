// Bench measures what the library costs, as ratios to what the same servers do without it in the same run.
//
// Its table is a list of cells (cells.go). A cell has two sides, the reference and the product, which are measured in turns, in the order ABBA, and what it
// says of them is the median of the rounds' ratios with an interval of 95 %. It fails when the interval misses the stated target. How to
// read and repeat the table is said in docs/performance.md.
//
//	make bench
//	make bench CELLS='store=redis' ROUNDS=20
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// Exit statuses.
const (
	exitGood  = 0
	exitBad   = 1 // a row has failed, or a cell could not be measured
	exitUsage = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// A config is what the flags say.
type config struct {
	cells    *regexp.Regexp
	rounds   int
	round    time.Duration
	raw      string
	recorded string
	record   string
	list     bool
}

func parseFlags(args []string, stderr io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "a `regexp` that the names of cells have to match; all, if empty")
	flags.IntVar(&c.rounds, "rounds", 10, "rounds a cell; below 6 there are no verdicts")
	flags.DurationVar(&c.round, "round", 400*time.Millisecond, "how long one side of a round is measured")
	flags.StringVar(&c.raw, "o", "", "a `file` for the raw output, in the format that benchstat reads")
	flags.StringVar(&c.recorded, "recorded", "internal/bench/recorded.txt", "the table's earlier `file`, with which this one is compared")
	flags.StringVar(&c.record, "record", "", "a `file` to record this table in")
	flags.BoolVar(&c.list, "list", false, "list the cells, and measure nothing")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	c.cells, err = regexp.Compile(*pattern)
	switch {
	case err != nil:
		err = fmt.Errorf("-run: %w", err)
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is no flag", flags.Arg(0))
	case c.rounds < 1:
		err = errors.New("-rounds: at least 1")
	case c.round < time.Millisecond:
		err = errors.New("-round: at least 1ms")
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
	}
	return c, err
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == consumerCommand {
		return consumerMain(os.Stdin, stdout)
	}
	quiet()
	cfg, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitGood
	}
	if err != nil {
		return exitUsage
	}
	var chosen []cell
	for _, c := range cells() {
		if cfg.cells.MatchString(c.name) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		fmt.Fprintf(stderr, "bench: no cell's name matches %v; -list lists them\n", cfg.cells)
		return exitUsage
	}
	if cfg.list {
		for _, c := range chosen {
			fmt.Fprintln(stdout, c.name)
		}
		return exitGood
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process, and leaves what would have been undone
	defer stop()
	good, err := measureAll(ctx, &cfg, chosen, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
	}
	if err != nil || !good {
		return exitBad
	}
	return exitGood
}
