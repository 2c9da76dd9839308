package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// A cell is one comparison of the product with a reference, measured in turns.
type cell struct {
	name string // as benchstat reads it: store=redis/handlers=20
	// open starts what the cell needs. What it leaves to be undone it gives to the stage.
	open func(ctx context.Context, s *stage) (pair, error)
	rows []row
}

// A pair is what is measured in turns.
type pair struct{ reference, product measurement }

// A measurement takes about as long as it is told, and returns what it found by unit. Its error aborts the cell.
type measurement func(ctx context.Context, d time.Duration) (figures, error)

// Figures are what one measurement found, by benchstat's units.
type figures map[string]float64

// A row of the table is one thing that a cell compares.
type row struct {
	what  string // in the table
	unit  string // of the bare figures that stand beside it
	value func(reference, product figures) float64
	rule  rule
}

// faster is the row whose value is the product's rate over the reference's.
func faster(what, unit string, r rule) row {
	return row{what, unit, func(reference, product figures) float64 { return product[unit] / reference[unit] }, r}
}

// sooner is the row whose value is the reference's time over the product's, so that there too more is better.
func sooner(what, unit string, r rule) row {
	return row{what, unit, func(reference, product figures) float64 { return reference[unit] / product[unit] }, r}
}

// A round is one measurement of each.
type round struct{ reference, product figures }

// referenceFirst says whether the reference is first in round i. Pairs of rounds are ABBA, so that a machine that becomes slower favours neither.
func referenceFirst(i int) bool { return i%2 == 0 }

// measure opens a cell and measures it for that many rounds, after one that does not count and warms everything up.
func (c *cell) measure(ctx context.Context, s *stage, rounds int, d time.Duration) (all []round, err error) {
	defer func() { err = errors.Join(err, s.undo()) }()
	p, err := c.open(ctx, s)
	if err != nil {
		return nil, err
	}
	if _, err := p.measure(ctx, true, d); err != nil {
		return nil, err
	}
	for i := range rounds {
		r, err := p.measure(ctx, referenceFirst(i), d)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func (p *pair) measure(ctx context.Context, referenceFirst bool, d time.Duration) (r round, err error) {
	reference := func() {
		if err == nil {
			if r.reference, err = p.reference(ctx, d); err != nil {
				err = fmt.Errorf("the reference: %w", err)
			}
		}
	}
	product := func() {
		if err == nil {
			if r.product, err = p.product(ctx, d); err != nil {
				err = fmt.Errorf("the product: %w", err)
			}
		}
	}
	if referenceFirst {
		reference()
		product()
	} else {
		product()
		reference()
	}
	return r, err
}

// values are a row's, one a round.
func (r *row) values(rounds []round) ([]float64, error) {
	values := make([]float64, len(rounds))
	for i, m := range rounds {
		values[i] = r.value(m.reference, m.product)
		if math.IsNaN(values[i]) || math.IsInf(values[i], 0) {
			return nil, fmt.Errorf("%s: round %d gives %v; a measurement is missing or zero", r.what, i+1, values[i])
		}
	}
	return values, nil
}
