package mysql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// Case 10: sixty-four goroutines work on neighbouring keys, singly and in batches, while two janitors sweep. No deadlock reaches a caller, no key
// has two owners at a time, and none that was done is run again.
func TestCase10NeighbouringKeys(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		s := tb.Store(t)
		took := 5 * time.Second
		if long {
			took = 30 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), took)
		defer cancel()
		w := &owners{holder: make(map[string]rmqdedup.Owner), done: make(map[string]bool)}
		var wg sync.WaitGroup
		for range 2 {
			janitors := tb.Store(t).(*mysql.Store)
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := sweep(ctx, janitors); err != nil && ctx.Err() == nil {
						t.Errorf("sweep: %v", err)
						return
					}
				}
			})
		}
		for n := range 64 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(n), 1))
				for ctx.Err() == nil && !t.Failed() {
					w.work(t, s, random)
				}
			})
		}
		wg.Wait()
		if w.claims < 1000 || w.ended < 1000 {
			t.Errorf("%d claims, %d of them ended: nothing to speak of", w.claims, w.ended)
		}
		for name, done := range w.done {
			if a := mustDo(t, s, rmqdedup.OpLookup, request(name))[0]; done && a.Outcome != rmqdedup.Done {
				t.Errorf("%s is %v, and was done", name, a.Outcome)
			}
		}
	})
}

// sweep does what package janitor does with this store, without its pauses, until nothing is left, and returns how many rows it removed.
func sweep(ctx context.Context, s *mysql.Store) (removed int, err error) {
	for {
		records, err := s.Expired(ctx, 50, false)
		if err != nil {
			return removed, err
		}
		cleared, err := s.Clear(ctx, records)
		removed += cleared
		if err != nil {
			return removed, err
		}
		purged, err := s.Purge(ctx, 50)
		removed += purged
		if err != nil || len(records) == 0 && purged == 0 {
			return removed, err
		}
	}
}

// owners is who has which key, as its goroutines know it.
type owners struct {
	mu            sync.Mutex
	holder        map[string]rmqdedup.Owner
	done          map[string]bool
	claims, ended int
}

// work claims a few keys in one call, renews them, and ends their claims in one of three ways.
func (w *owners) work(t *testing.T, s rmqdedup.Store, random *rand.Rand) {
	first, n := random.IntN(300), 1
	if random.IntN(2) == 0 {
		n += random.IntN(20)
	}
	var reqs []rmqdedup.Request
	for i := range n {
		q := request(fmt.Sprintf("key-%03d", first+i))
		q.Lease, q.Grace, q.Retention = time.Minute, 0, time.Hour
		reqs = append(reqs, q)
	}
	random.Shuffle(len(reqs), func(i, j int) { reqs[i], reqs[j] = reqs[j], reqs[i] })
	var mine []rmqdedup.Request
	for i, a := range w.do(t, s, rmqdedup.OpAcquire, reqs) {
		if a.Outcome == rmqdedup.Claimed || a.Outcome == rmqdedup.TakenOver {
			mine = append(mine, reqs[i])
		}
	}
	if len(mine) == 0 {
		return
	}
	w.note(func() {
		for _, q := range mine {
			w.claims++
			if other, taken := w.holder[q.Key.Value]; taken {
				t.Errorf("%s was given to %v while it was %v's", q.Key.Value, q.Owner, other)
			}
			if w.done[q.Key.Value] {
				t.Errorf("%s was given to %v though it was done", q.Key.Value, q.Owner)
			}
			w.holder[q.Key.Value] = q.Owner
		}
	})
	w.applied(t, s, rmqdedup.OpRenew, mine)
	end := [...]rmqdedup.Op{rmqdedup.OpRelease, rmqdedup.OpRelease, rmqdedup.OpAbandon, rmqdedup.OpAbandon, rmqdedup.OpComplete}[random.IntN(5)]
	w.note(func() { // before it is told to the table, from where others may have it at once
		for _, q := range mine {
			w.ended++
			delete(w.holder, q.Key.Value)
		}
	})
	w.applied(t, s, end, mine)
	if end == rmqdedup.OpComplete {
		w.note(func() {
			for _, q := range mine {
				w.done[q.Key.Value] = true
			}
		})
		if random.IntN(4) > 0 { // so that there is something to claim again
			w.note(func() {
				for _, q := range mine {
					delete(w.done, q.Key.Value)
				}
			})
			w.do(t, s, rmqdedup.OpForget, mine)
		}
	}
}

func (w *owners) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// do sends one call, of which no answer may be an error.
func (w *owners) do(t *testing.T, s rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) []rmqdedup.Answer {
	answers, err := rmqdedup.Do(context.Background(), s, op, reqs)
	if err != nil {
		t.Errorf("%v of %d keys: %v", op, len(reqs), err)
	}
	for i, a := range answers {
		if a.Err != nil {
			t.Errorf("%v of %s: %v", op, reqs[i].Key.Value, a.Err)
		}
	}
	return answers
}

func (w *owners) applied(t *testing.T, s rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) {
	for i, a := range w.do(t, s, op, reqs) {
		if a.Err == nil && a.Outcome != rmqdedup.Applied {
			t.Errorf("%v of %s: %v", op, reqs[i].Key.Value, a.Outcome)
		}
	}
}

// Case 27: several janitors clear what is expired, while claims that look the same go on and are renewed. Nothing goes before its time.
func TestCase27SeveralJanitors(t *testing.T) {
	rows := 5_000
	if long {
		rows = 100_000
	}
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		fillExpired(t, tb, rows)
		s := tb.Store(t)
		// Claims that have expired as well, and are renewed, or taken over and done, while the janitors look at them: each ends as its
		// owner was told.
		var revived []rmqdedup.Request
		for i := range 200 {
			q := request(fmt.Sprintf("revived-%d", i))
			q.Lease = time.Hour
			revived = append(revived, q)
		}
		var live, finished []rmqdedup.Request
		for i := range 200 {
			q := request(fmt.Sprintf("live-%d", i))
			q.Lease, q.Retention = time.Hour, time.Hour
			if i%2 == 0 {
				live = append(live, q)
			} else {
				finished = append(finished, q)
			}
		}
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, append(slices.Clip(live), finished...)...)
		want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, finished...)
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, revived...)
		for _, q := range revived {
			tb.Age(t, q.Key, 2*time.Hour)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var removed int
		alive, gone := 0, 0
		stop := make(chan struct{})
		for range 3 {
			theirs := tb.Store(t).(*mysql.Store)
			wg.Go(func() {
				// Another one may have taken what was to be purged, so that one look says little.
				for idle := 0; idle < 3; {
					n, err := sweep(context.Background(), theirs)
					if err != nil {
						t.Errorf("sweep: %v", err)
						return
					}
					if idle++; n > 0 {
						idle = 0
					}
					mu.Lock()
					removed += n
					mu.Unlock()
				}
			})
		}
		go func() { wg.Wait(); close(stop) }()
		for sweeping := true; sweeping; {
			select {
			case <-stop:
				sweeping = false
			default:
			}
			want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, live...)
			if n := len(revived) - alive; n > 0 {
				q := revived[alive]
				if a := mustDoSome(t, s, rmqdedup.OpRenew, []rmqdedup.Request{q})[0]; a.Outcome == rmqdedup.Applied {
					live = append(live, q)
				} else {
					gone++
				}
				alive++
			}
		}
		if removed != rows+gone+len(revived)-alive {
			t.Errorf("%d rows were removed, of %d, and %d claims that were not renewed in time", removed, rows, gone+len(revived)-alive)
		}
		want(t, s, rmqdedup.InFlight, rmqdedup.OpLookup, live...)
		want(t, s, rmqdedup.Done, rmqdedup.OpLookup, finished...)
	})
}

const tenDigits = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"

// fillExpired makes rows that are past their time, every other one a claim.
func fillExpired(t testing.TB, tb *table, rows int) {
	t.Helper()
	fillRows(t, tb, rows, "1 + n % 2", "1 + n")
}

// fillRows makes rows with that status and that expiry, both SQL over n.
func fillRows(t testing.TB, tb *table, rows int, status, expiry string) {
	t.Helper()
	const chunk = 100_000
	for from := 0; from < rows; from += chunk {
		tb.exec(t, fmt.Sprintf("INSERT INTO `%s` SELECT UNHEX(SHA2(CONCAT('row', n), 256)), %s, REPEAT('x', 16), REPEAT('y', 16), 1, %s, 0, 1, 0, n, 1, 'order-group', 'orders', 'paid', CONCAT('order-', n), 'message' "+
			"FROM (SELECT %d + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d n FROM %s a, %s b, %s c, %s e, %s f) numbers WHERE n < %d ORDER BY 1",
			tb.name, status, expiry, from, tenDigits, tenDigits, tenDigits, tenDigits, tenDigits, rows))
	}
}
