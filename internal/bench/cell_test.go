package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// A script is a cell whose measurements are noted, and answer what is written.
type script struct {
	calls  []string
	undone int
	fail   string // the call at which it fails, such as "product 3"
}

var errScript = errors.New("as it is written")

func (s *script) cell() *cell {
	side := func(name string) measurement {
		n := 0
		return func(_ context.Context, _ time.Duration) (figures, error) {
			n++
			call := name + " " + string(rune('0'+n))
			s.calls = append(s.calls, call)
			if call == s.fail {
				return nil, errScript
			}
			return figures{"msgs/s": float64(n)}, nil
		}
	}
	return &cell{"script", func(_ context.Context, st *stage) (pair, error) {
		st.later(func(context.Context) error { s.undone++; return nil })
		return pair{side("reference"), side("product")}, nil
	}, []row{faster("product : reference", "msgs/s", atLeast(1))}}
}

func TestSidesAreMeasuredInTurns(t *testing.T) {
	s := &script{}
	rounds, err := s.cell().measure(t.Context(), &stage{}, 4, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"reference 1", "product 1", // does not count
		"reference 2", "product 2", "product 3", "reference 3",
		"reference 4", "product 4", "product 5", "reference 5",
	}
	if !slices.Equal(s.calls, want) {
		t.Errorf("measured in the order %q, want %q", s.calls, want)
	}
	if len(rounds) != 4 || rounds[0].product["msgs/s"] != 2 || s.undone != 1 {
		t.Errorf("%d rounds, the first %v, undone %d times", len(rounds), rounds[0], s.undone)
	}
}

func TestAFailedMeasurementEndsTheCell(t *testing.T) {
	s := &script{fail: "product 3"}
	rounds, err := s.cell().measure(t.Context(), &stage{}, 4, time.Second)
	if !errors.Is(err, errScript) || !strings.Contains(err.Error(), "the product") {
		t.Errorf("the error is %v", err)
	}
	if rounds != nil || s.undone != 1 {
		t.Errorf("%d rounds, undone %d times", len(rounds), s.undone)
	}
	if last := s.calls[len(s.calls)-1]; last != "product 3" {
		t.Errorf("%s was measured after the failure", last)
	}
}

func TestTheStageUndoesInReverse(t *testing.T) {
	var order []int
	s := &stage{}
	for i := range 3 {
		s.later(func(ctx context.Context) error {
			order = append(order, i)
			if i == 1 {
				return errScript
			}
			return ctx.Err()
		})
	}
	if err := s.undo(); !errors.Is(err, errScript) || !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("undone in the order %v, with %v", order, err)
	}
}

func TestRowsCompareSides(t *testing.T) {
	reference, product := figures{"msgs/s": 100, "p99-us": 50}, figures{"msgs/s": 150, "p99-us": 40}
	if got := faster("", "msgs/s", reported()); got.value(reference, product) != 1.5 {
		t.Errorf("faster: %v", got.value(reference, product))
	}
	if got := sooner("", "p99-us", reported()); got.value(reference, product) != 1.25 {
		t.Errorf("sooner: %v", got.value(reference, product))
	}
	r := faster("msgs", "msgs/s", reported())
	if _, err := r.values([]round{{reference, product}, {figures{}, product}}); err == nil || !strings.Contains(err.Error(), "round 2") {
		t.Errorf("a missing figure: %v", err)
	}
}

// A handler of 2 ms between a claim and a completion of 0.25 ms each reaches 0.8 of the plain listener's rate; 0.76 is 0.95 of that.
func TestOfModel(t *testing.T) {
	reference := figures{messagesPerSecond: 1000, handlerMicroseconds: 2000}
	product := figures{messagesPerSecond: 760, claimMicroseconds: 250, completeMicroseconds: 250}
	if got := ofModel(reference, product); math.Abs(got-0.95) > 1e-9 {
		t.Errorf("%v of the model, want 0.95", got)
	}
}
