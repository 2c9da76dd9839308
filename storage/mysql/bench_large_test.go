package mysql_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// BenchmarkLarge tells what a claim and its completion cost in a table of RMQDEDUP_ROWS rows (10 million) over what they cost in an empty one: the median of
// messages that are sent to one and to the other in turn. make bench-large starts the servers with a buffer pool of 2 GiB for it; without
// RMQDEDUP_LARGE=1 it is skipped, since filling the table takes minutes.
func BenchmarkLarge(b *testing.B) {
	if os.Getenv("RMQDEDUP_LARGE") != "1" {
		b.Skip("make bench-large runs it")
	}
	rows := 10_000_000
	if n, err := strconv.Atoi(os.Getenv("RMQDEDUP_ROWS")); err == nil {
		rows = n
	}
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) {
			server := testenv.Require(b, s.variable)
			large, empty := newTable(b, server, byURL()), newTable(b, server, byURL())
			fillInOrder(b, large, rows)
			stores := [2]rmqdedup.Store{empty.Store(b), large.Store(b)}
			var took [2][]time.Duration
			for i := 0; b.Loop(); i++ {
				for n := range 1000 {
					which := (i + n) % 2
					begin := time.Now()
					if err := process(b.Context(), stores[which], i*1000+n, 1); err != nil {
						b.Fatal(err)
					}
					took[which] = append(took[which], time.Since(begin))
				}
			}
			median := func(of []time.Duration) float64 {
				slices.Sort(of)
				return float64(of[len(of)/2])
			}
			b.ReportMetric(median(took[1])/median(took[0]), "of-empty")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fillInOrder makes rows that are DONE for days, in the order of their keys, which are spread evenly.
func fillInOrder(b *testing.B, tb *table, rows int) {
	b.Helper()
	const chunk = 100_000
	step := (1 << 32) / rows
	for from := 0; from < rows; from += chunk {
		tb.exec(b, fmt.Sprintf("INSERT INTO `%s` SELECT UNHEX(CONCAT(LPAD(HEX(n * %d), 8, '0'), LEFT(SHA2(n, 256), 56))), 2, REPEAT('x', 16), REPEAT('y', 16), 1, "+
			"UNIX_TIMESTAMP() * 1000 + 86400000 + n, 0, 1, 0, n, 1, 'order-group', 'orders', 'paid', CONCAT('order-', n), CONCAT('7F00000100002A9F', LPAD(n, 16, '0')) "+
			"FROM (SELECT %d + 10000 * a.d + 1000 * b.d + 100 * c.d + 10 * e.d + f.d n FROM %s a, %s b, %s c, %s e, %s f) numbers WHERE n < %d ORDER BY n",
			tb.name, step, from, tenDigits, tenDigits, tenDigits, tenDigits, tenDigits, rows))
	}
}
