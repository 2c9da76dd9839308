package main

import (
	"slices"
	"testing"
)

func TestOrdersFollowFromTheSeed(t *testing.T) {
	cfg := &config{run: "r", produce: 1000, duplicates: 0.3, seed: 7}
	orders := makeOrders(cfg)
	if !slices.Equal(orders, makeOrders(cfg)) {
		t.Error("one seed gives different orders")
	}
	cfg.seed = 8
	if slices.Equal(orders, makeOrders(cfg)) {
		t.Error("two seeds give the same orders")
	}
}

func TestOrdersAreSentAgainAsAsked(t *testing.T) {
	var again, late, sameID, lateAndSameID, copies int
	names := map[string]bool{}
	orders := makeOrders(&config{run: "r", produce: 1000, duplicates: 0.3, seed: 7})
	for i := range orders {
		o := &orders[i]
		for _, name := range o.copies() {
			names[name] = true
			copies++
		}
		for of, is := range map[*int]bool{&again: o.again, &late: o.late, &sameID: o.sameID, &lateAndSameID: o.late && o.sameID} {
			if is {
				*of++
			}
		}
		if works := o.works(byOrderID); works != 1 {
			t.Fatalf("an order is %d pieces of work by its ID", works)
		}
		if works, want := o.works(byMessageID), len(o.copies()); works != want && !o.sameID {
			t.Fatalf("an order sent %d times is %d pieces of work by message ID", want, works)
		}
	}
	if again != 300 || late != 150 || sameID != 74 || lateAndSameID != 37 || copies != 1300 {
		t.Errorf("sent again %d, late %d, under the same ID %d, both %d, copies %d", again, late, sameID, lateAndSameID, copies)
	}
	if len(names) != copies {
		t.Errorf("%d copies have %d names", copies, len(names))
	}
}
