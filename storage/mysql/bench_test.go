package mysql_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// BenchmarkOfFloor compares the store with the least that the same server could do for a message: a prepared INSERT of one row and a prepared UPDATE by
// its primary key, in the same table, by the same number of goroutines on as many connections. One iteration is a round of each, a second or so; the
// metric of-floor is the median of the rounds' ratios in messages a second, and low and high are its quartiles. Try -benchtime 20x.
func BenchmarkOfFloor(b *testing.B) {
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) {
			server := testenv.Require(b, s.variable)
			for _, w := range []struct{ handlers, keys int }{{1, 1}, {20, 1}, {64, 1}, {4, 64}} {
				b.Run(fmt.Sprintf("handlers=%d/keys=%d", w.handlers, w.keys), func(b *testing.B) { ofFloor(b, server, w.handlers, w.keys) })
			}
		})
	}
}

func ofFloor(b *testing.B, server string, handlers, keys int) {
	tb := newTable(b, server, byURL(fmt.Sprintf("max_conns=%d", handlers)))
	store := tb.Store(b)
	floor := newFloor(b, tb, handlers)
	defer floor.Close()
	const round = 500 * time.Millisecond
	var next atomic.Int64
	var ratios []float64
	measure := func(do func(first, n int) error, keys int) float64 {
		var done atomic.Int64
		var wg sync.WaitGroup
		begin := time.Now()
		for range handlers {
			wg.Go(func() {
				for time.Since(begin) < round {
					if err := do(int(next.Add(int64(keys))), keys); err != nil {
						b.Error(err)
						return
					}
					done.Add(int64(keys))
				}
			})
		}
		wg.Wait()
		return float64(done.Load()) / time.Since(begin).Seconds()
	}
	ctx := context.WithoutCancel(b.Context()) // as those of messages are
	message := func(first, n int) error { return process(ctx, store, first, n) }
	measure(floor.message, 1) // to open the connections
	measure(message, keys)
	for i := 0; b.Loop(); i++ {
		var f, s float64
		if i%2 == 0 { // what drifts is to favour neither
			f, s = measure(floor.message, 1), measure(message, keys)
		} else {
			s, f = measure(message, keys), measure(floor.message, 1)
		}
		ratios = append(ratios, s/f)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-floor")
	b.ReportMetric(ratios[len(ratios)/4], "low")
	b.ReportMetric(ratios[len(ratios)*3/4], "high")
	b.ReportMetric(0, "ns/op") // a round is as long as it is
}

// process claims and completes n new messages in one call each.
func process(ctx context.Context, store rmqdedup.Store, first, n int) error {
	reqs := make([]rmqdedup.Request, n)
	for i := range reqs {
		reqs[i] = usual(first - i)
	}
	for _, op := range []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpComplete} {
		answers, err := rmqdedup.Do(ctx, store, op, reqs)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil || a.Outcome != rmqdedup.Claimed && a.Outcome != rmqdedup.Applied {
				return fmt.Errorf("%v: %v %w", op, a.Outcome, a.Err)
			}
		}
	}
	return nil
}

// usual is the request of a message as they mostly are: an order's number, and an ID of the client's making.
func usual(i int) rmqdedup.Request {
	return rmqdedup.Request{
		Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "order-group", "orders", "paid", "order-"+strconv.Itoa(i)),
		Owner: rmqdedup.NewOwner(), Lease: time.Minute, Retention: 96 * time.Hour,
		MessageID: fmt.Sprintf("7F00000100002A9F%016X", i), Fingerprint: uint64(i) * 0x9E3779B97F4A7C15,
	}
}

// A floorTable writes as little as a message needs.
type floorTable struct {
	db             *sql.DB
	insert, update *sql.Stmt
}

func newFloor(b *testing.B, tb *table, connections int) *floorTable {
	db := newAdmin(b, tb.server)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	prepare := func(text string) *sql.Stmt {
		s, err := db.Prepare(text)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	return &floorTable{db,
		prepare("INSERT INTO `" + tb.name + "` (digest, status, owner, origin, claimed_at, expires_at, grace, done_at, attempt, fingerprint, key_kind, consumer_group, topic, tag, key_value, message_id) " +
			"VALUES (?, 1, ?, '', 1, ?, 0, 0, 0, ?, 1, ?, ?, ?, ?, ?)"),
		prepare("UPDATE `" + tb.name + "` SET status = 2, expires_at = ?, done_at = 2 WHERE digest = ?"),
	}
}

func (f *floorTable) message(i, _ int) error {
	q := usual(i)
	digest := sha256.Sum256([]byte("floor" + strconv.Itoa(i)))
	now := time.Now().UnixMilli()
	if _, err := f.insert.Exec(digest[:], q.Owner[:], now+60_000, int64(q.Fingerprint), q.Key.Group, q.Key.Topic, q.Key.Tag, q.Key.Value, q.MessageID); err != nil {
		return err
	}
	_, err := f.update.Exec(now+345_600_000, digest[:])
	return err
}

func (f *floorTable) Close() {
	_ = f.insert.Close()
	_ = f.update.Close()
}

// BenchmarkSize fills a table with messages that are done, in the order in which they come, which is none for the primary key, and
// tells how many bytes of the server's files a row takes.
func BenchmarkSize(b *testing.B) {
	const rows = 200_000
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) {
			tb := newTable(b, testenv.Require(b, s.variable), byURL())
			store := tb.Store(b)
			var data, index float64
			for b.Loop() {
				tb.exec(b, "TRUNCATE TABLE `"+tb.name+"`")
				for i := 64; i <= rows; i += 64 {
					if err := process(b.Context(), store, i, 64); err != nil {
						b.Fatal(err)
					}
				}
				tb.exec(b, "ANALYZE TABLE `"+tb.name+"`")
				row := tb.admin.QueryRow("SELECT DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", tb.name)
				if err := row.Scan(&data, &index); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(data/rows, "table-B/row")
			b.ReportMetric(index/rows, "index-B/row")
			b.ReportMetric(0, "ns/op")
		})
	}
}
