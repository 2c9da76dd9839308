package janitor_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// BenchmarkSweep clears 200,000 expired rows of 1.2 million while 4 handlers go on claiming and completing, and tells by how much that
// slows them: p99 and p50 of a claim beside the sweep over those on the quiet table, five seconds of one and of the other in turn, so that what else the
// machine does meets both. The cell "one delete" is a single DELETE of as many
// rows, for comparison. One iteration takes a minute or so: use -benchtime 1x.
func BenchmarkSweep(b *testing.B) {
	for _, server := range []struct{ name, variable string }{{"MySQL", "RMQDEDUP_MYSQL"}, {"MariaDB", "RMQDEDUP_MARIADB"}} {
		b.Run(server.name, func(b *testing.B) {
			url := testenv.Require(b, server.variable)
			b.Run("janitor", func(b *testing.B) {
				var j *janitor.Janitor
				benchSweep(b, url, func(s *mysql.Store, _ *sql.DB, _ string) (n int, err error) {
					if j == nil { // it keeps its pace from sweep to sweep
						j, err = janitor.New(s, janitor.Config{SweepTimeout: turn, Logger: slog.New(slog.DiscardHandler)})
						if err != nil {
							return 0, err
						}
					}
					r, err := j.Sweep(context.Background())
					b.ReportMetric(float64(r.Batches), "batches")
					b.ReportMetric(float64(r.SmallestBatch), "smallest")
					return r.Cleared + r.Purged, err
				})
			})
			b.Run("one_delete", func(b *testing.B) {
				benchSweep(b, url, func(_ *mysql.Store, db *sql.DB, table string) (int, error) {
					r, err := db.Exec("DELETE FROM `" + table + "` WHERE status = 2 AND expires_at < 1000")
					if err != nil {
						return 0, err
					}
					n, err := r.RowsAffected()
					return int(n), err
				})
			})
		})
	}
}

const (
	benchRows    = 1_200_000
	benchExpired = 200_000
	turn         = 5 * time.Second
)

func benchSweep(b *testing.B, url string, sweep func(*mysql.Store, *sql.DB, string) (int, error)) {
	for b.Loop() {
		table := "bench_" + rmqdedup.NewOwner().String()
		s, err := mysql.Open(b.Context(), url+"?migrate=true&call_timeout=30s&table="+table)
		if err != nil {
			b.Fatal(err)
		}
		db, err := sql.Open("mysql", strings.NewReplacer("mysql://", "", "@", "@tcp(", "/test", ")/test").Replace(url))
		if err != nil {
			b.Fatal(err)
		}
		fill(b, db, table)
		load := startClaims(b, s)
		load.during(func() { <-time.After(turn) }) // to warm up
		var idle, busy []float64
		var removed int
		var took time.Duration
		for removed < benchExpired && err == nil {
			idle = append(idle, load.during(func() { <-time.After(turn) })...)
			begin := time.Now()
			var n int
			busy = append(busy, load.during(func() { n, err = sweep(s, db, table) })...)
			took += time.Since(begin)
			removed += n
		}
		load.stop()
		if err != nil || removed != benchExpired {
			b.Errorf("%d rows removed, error %v", removed, err)
		}
		b.ReportMetric(quantile(busy, 0.99)/quantile(idle, 0.99), "p99/idle")
		b.ReportMetric(quantile(busy, 0.5)/quantile(idle, 0.5), "p50/idle")
		b.ReportMetric(float64(removed)/took.Seconds(), "rows/s")
		b.ReportMetric(0, "ns/op")
		_, _ = db.Exec("DROP TABLE `" + table + "`")
		_, _ = db.Close(), s.Close()
	}
}

// fill makes the rows: of every six one that is DONE and past its retention, and five whose retention ends in a day.
func fill(b *testing.B, db *sql.DB, table string) {
	b.Helper()
	digits := "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	for part := range 12 {
		_, err := db.Exec(fmt.Sprintf("INSERT INTO `%s` SELECT UNHEX(SHA2(CONCAT('row', n), 256)), 2, REPEAT('x', 16), REPEAT('y', 16), 1, "+
			"IF(n %% 6 = 0, 1 + n %% 900, UNIX_TIMESTAMP() * 1000 + 86400000 + n), 0, 1, 0, n, 1, 'order-group', 'orders', 'paid', CONCAT('order-', n), CONCAT('7F00000100002A9F', LPAD(n, 16, '0')) "+
			"FROM (SELECT %d + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d n FROM %s a, %s b, %s c, %s e, %s f) numbers ORDER BY 1",
			table, part*benchRows/12, digits, digits, digits, digits, digits))
		if err != nil {
			b.Fatal(err)
		}
	}
}

// A claimLoad is handlers that claim and complete, four of them, and pause as long as that took, so that the server is not at its limit.
type claimLoad struct {
	ctx  context.Context
	stop func()

	mu   sync.Mutex
	took []float64
}

func startClaims(b *testing.B, s rmqdedup.Store) *claimLoad {
	ctx, cancel := context.WithCancel(context.Background())
	l := &claimLoad{ctx: ctx}
	var wg sync.WaitGroup
	for h := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				q := rmqdedup.Request{
					Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", "live-"+strconv.Itoa(h)+"-"+strconv.Itoa(i)),
					Owner: rmqdedup.NewOwner(), Lease: time.Minute, Retention: time.Hour,
				}
				begin := time.Now()
				a, err := s.Acquire(context.Background(), []rmqdedup.Request{q})
				took := time.Since(begin)
				l.mu.Lock()
				l.took = append(l.took, took.Seconds())
				l.mu.Unlock()
				if err == nil && a[0].Outcome == rmqdedup.InFlight {
					continue // a range of the table is locked, as one large DELETE does
				}
				if err != nil || a[0].Outcome != rmqdedup.Claimed {
					b.Errorf("%v %v", a, err)
					return
				}
				if a, err = s.Complete(context.Background(), []rmqdedup.Request{q}); err != nil || a[0].Err != nil && !errors.Is(a[0].Err, rmqdedup.ErrLocked) {
					b.Errorf("%v %v", a, err)
					return
				}
				<-time.After(2 * took)
			}
		})
	}
	l.stop = func() { cancel(); wg.Wait() }
	return l
}

// during returns how long each claim took while f ran.
func (l *claimLoad) during(f func()) []float64 {
	l.mu.Lock()
	l.took = nil
	l.mu.Unlock()
	f()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.took
}

func quantile(of []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}
