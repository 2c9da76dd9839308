package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// A ledger is what was done, written down by those who did it. It knows nothing of rmqdedup, and the verdict is based on it.
//
// In a file, it is that of all processes that append to it. What a process wrote before it was killed stays.
type ledger struct {
	mu       sync.Mutex
	runs     map[string]int      // an order's successful runs
	acked    map[string]struct{} // copies that the client was told to acknowledge
	dead     map[string]struct{} // copies in the dead-letter topic
	file     *os.File            // nil: in memory
	readUpTo int64
}

// The kinds of entries, a word each, followed by an order or a copy of one.
const (
	entrySuccess = "success"
	entryAck     = "ack"
	entryDead    = "dead"
)

func openLedger(path string) (*ledger, error) {
	l := &ledger{runs: map[string]int{}, acked: map[string]struct{}{}, dead: map[string]struct{}{}}
	if path == "" {
		return l, nil
	}
	var err error
	if l.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("-ledger: %w", err)
	}
	return l, nil
}

func (l *ledger) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

// succeeded notes a successful run of each of some orders, all of them or none.
func (l *ledger) succeeded(orders []string) error { return l.enter(entrySuccess, orders) }

// acknowledged notes copies that will not come again.
func (l *ledger) acknowledged(copies []string) error { return l.enter(entryAck, copies) }

// deadLettered notes copies found in the dead-letter topic.
func (l *ledger) deadLettered(copies []string) error { return l.enter(entryDead, copies) }

func (l *ledger) enter(kind string, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		for _, id := range ids {
			l.note(kind, id)
		}
		return nil
	}
	var lines strings.Builder
	for _, id := range ids {
		fmt.Fprintln(&lines, kind, id)
	}
	_, err := l.file.WriteString(lines.String()) // one write, so that it stays together among those of other processes
	return err
}

func (l *ledger) note(kind, id string) {
	switch kind {
	case entrySuccess:
		l.runs[id]++
	case entryAck:
		l.acked[id] = struct{}{}
	case entryDead:
		l.dead[id] = struct{}{}
	}
}

// refresh reads what has been added to the file, by whomever.
func (l *ledger) refresh() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	added, err := io.ReadAll(io.NewSectionReader(l.file, l.readUpTo, 1<<62))
	if err != nil {
		return fmt.Errorf("-ledger: %w", err)
	}
	end := bytes.LastIndexByte(added, '\n') + 1
	l.readUpTo += int64(end)
	for line := range strings.Lines(string(added[:end])) {
		kind, id, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !slices.Contains([]string{entrySuccess, entryAck, entryDead}, kind) {
			return errors.New("-ledger: the file has lines of something else; give a new one")
		}
		l.note(kind, id)
	}
	return nil
}

// successes is how often an order succeeded.
func (l *ledger) successes(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[id]
}

// standing is how many of some copies are still to come, neither acknowledged nor dead-lettered, and how many are in the dead-letter topic.
func (l *ledger) standing(copies []string) (open, dead int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range copies {
		if _, is := l.dead[c]; is {
			dead++
		} else if _, is := l.acked[c]; !is {
			open++
		}
	}
	return open, dead
}
