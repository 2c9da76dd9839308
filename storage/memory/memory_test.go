package memory_test

import (
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
	"github.com/rmqdedup/rmqdedup-go/storage/storagetest"
)

// A table is one store: memory has no second handle.
type table struct{ store *memory.Store }

func (t table) Store(testing.TB) rmqdedup.Store { return t.store }

func (t table) Age(_ testing.TB, key rmqdedup.Key, by time.Duration) { t.store.Age(key, by) }

func newTable(c memory.Config) func(t testing.TB) storagetest.Table {
	return func(t testing.TB) storagetest.Table {
		store, err := memory.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return table{store}
	}
}

func TestStore(t *testing.T) {
	storagetest.Run(t, storagetest.Config{NewTable: newTable(memory.Config{}), KeepsParts: true, ExactBatches: true, DropsExpired: true})
}

func BenchmarkStore(b *testing.B) {
	storagetest.Bench(b, storagetest.Config{NewTable: newTable(memory.Config{MaxKeys: 50_000_000})})
}
