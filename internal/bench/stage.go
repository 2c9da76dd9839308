package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A stage is where a cell is measured. It knows what has to be undone when the cell has been.
type stage struct {
	note  func(format string, args ...any) // tells what is worth knowing beside the figures
	undos []func(context.Context) error
}

// later has f called when the cell has been measured, or given up. What was given last is undone first.
func (s *stage) later(f func(context.Context) error) { s.undos = append(s.undos, f) }

// close is later for what has a Close.
func (s *stage) close(c interface{ Close() error }) {
	s.later(func(context.Context) error { return c.Close() })
}

// undoTime is enough to remove some millions of keys.
const undoTime = 2 * time.Minute

// undo undoes what the cell did, even if the cell's own context has ended.
func (s *stage) undo() error {
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	var errs []error
	for _, f := range slices.Backward(s.undos) {
		errs = append(errs, f(ctx))
	}
	s.undos = nil
	return errors.Join(errs...)
}
