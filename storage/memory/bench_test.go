package memory_test

import (
	"crypto/sha256"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
)

// BenchmarkFloor is the least that a state table in memory could do for a message: a digest of its key, and a map under
// a mutex that is written when it is claimed and when it is done. Compare BenchmarkStore with it, of the same run.
func BenchmarkFloor(b *testing.B) {
	type row struct {
		owner rmqdedup.Owner
		until time.Duration
		done  bool
	}
	var mu sync.Mutex
	rows := make(map[[sha256.Size]byte]row)
	start := time.Now()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		digest := sha256.Sum256([]byte("storagetest/orders/paid/order-" + strconv.Itoa(i)))
		for _, done := range []bool{false, true} {
			mu.Lock()
			r := rows[digest]
			r.owner[0], r.done, r.until = byte(i), done, time.Since(start)+time.Minute
			rows[digest] = r
			mu.Unlock()
		}
	}
}

// BenchmarkMessage is a message whose record is there already and has run out: what remains when the table has stopped
// growing.
func BenchmarkMessage(b *testing.B) {
	store, err := memory.New(memory.Config{})
	if err != nil {
		b.Fatal(err)
	}
	const keys = 1 << 14
	reqs := make([]rmqdedup.Request, keys)
	for i := range reqs {
		reqs[i] = request(strconv.Itoa(i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q := reqs[i%keys : i%keys+1]
		for _, op := range []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpComplete, rmqdedup.OpForget} {
			if _, err := rmqdedup.Do(b.Context(), store, op, q); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func request(value string) rmqdedup.Request {
	return rmqdedup.Request{
		Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "group", "orders", "paid", value),
		Owner: rmqdedup.NewOwner(), Lease: time.Minute, Retention: time.Hour, MessageID: "7F00000100002A9F0000000000000001",
	}
}
