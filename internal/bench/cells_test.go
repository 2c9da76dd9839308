package main

import (
	"regexp"
	"testing"
)

// Names are benchstat's: parts of the form key=value, and no - before a number, which would be taken for GOMAXPROCS.
func TestNamesOfCells(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]+(=[a-z0-9%.]+)?(/[a-z]+=[a-z0-9.]+)*$`)
	seen := map[string]bool{}
	for _, c := range cells() {
		if !form.MatchString(c.name) {
			t.Errorf("%s: benchstat would not read it", c.name)
		}
		if seen[c.name] {
			t.Errorf("%s: there are two", c.name)
		}
		seen[c.name] = true
		if len(c.rows) == 0 {
			t.Errorf("%s: it has no row", c.name)
		}
		whats := map[string]bool{}
		for _, r := range c.rows {
			if whats[r.what] {
				t.Errorf("%s: two rows are called %s", c.name, r.what)
			}
			whats[r.what] = true
		}
	}
}
