package main

import (
	"strings"
	"testing"
)

func TestRateInCSV(t *testing.T) {
	out := `"test","rps","avg_latency_ms"` + "\n" + `"set bench:__rand_int__ 1 NX","73529.41","0.173"` + "\n"
	if got, err := rateInCSV([]byte(out)); err != nil || got != 73529.41 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "Could not connect\n", `"test","qps"` + "\n" + `"set","1"` + "\n"} {
		if _, err := rateInCSV([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestStatementsHaveARowAKey(t *testing.T) {
	for _, rows := range []int{1, 8, 64} {
		if got := strings.Count(insertText("t", rows), "?"); got != 9*rows {
			t.Errorf("the INSERT of %d rows has %d parameters", rows, got)
		}
		if got := strings.Count(updateText("t", rows), "?"); got != 1+rows {
			t.Errorf("the UPDATE of %d rows has %d parameters", rows, got)
		}
	}
}
