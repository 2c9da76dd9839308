package mysql_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
	"github.com/rmqdedup/rmqdedup-go/storage/storagetest"
)

// nodes returns the URLs of a Galera cluster's nodes. It is not among the servers that every test run needs: make test-galera starts it.
func nodes(t testing.TB) []string {
	t.Helper()
	urls := os.Getenv("RMQDEDUP_GALERA")
	if urls == "" {
		t.Skip("RMQDEDUP_GALERA names no cluster: make test-galera")
	}
	return strings.Split(urls, ",")
}

// The suite, with stores that are on one node after the other. Each statement waits for what was committed elsewhere before it.
func TestGaleraStore(t *testing.T) {
	all := nodes(t)
	var next atomic.Int64
	const wait = "wsrep_sync_wait=15"
	roundRobin := func(t testing.TB, _, name string) rmqdedup.Store {
		return byURL(wait)(t, all[int(next.Add(1))%len(all)], name)
	}
	config := suite(all[0], roundRobin)
	config.NewTable = func(t testing.TB) storagetest.Table {
		tb := &table{server: all[0], name: newName(), admin: openDSN(t, dsnOf(all[0], wait)), open: roundRobin}
		migrate(t, all[0], tb.name)
		t.Cleanup(func() { tb.exec(t, "DROP TABLE IF EXISTS `"+tb.name+"`") })
		return tb
	}
	storagetest.Run(t, config)
}

// Two thousand keys, each claimed by twelve goroutines on each of three nodes at once: one wins, and the nodes' quarrels reach nobody.
func TestGaleraOneWinner(t *testing.T) {
	all := nodes(t)
	tb := newTable(t, all[0], byURL())
	const keys, claimants = 2000, 12
	var stores []*mysql.Store
	for _, node := range all {
		stores = append(stores, open(t, withOptions(node, "table="+tb.name, "call_timeout=30s")))
	}
	var winners [keys]atomic.Int64
	var wg sync.WaitGroup
	for _, s := range stores {
		for range claimants {
			wg.Go(func() {
				for k := range keys {
					q := by(request(fmt.Sprintf("key-%d", k)))
					answers, err := s.Acquire(context.Background(), []rmqdedup.Request{q})
					switch {
					case err != nil:
						t.Errorf("key %d: %v", k, err)
						return
					case answers[0].Err != nil:
						t.Errorf("key %d: %v", k, answers[0].Err)
						return
					case answers[0].Outcome == rmqdedup.Claimed:
						winners[k].Add(1)
					case answers[0].Outcome != rmqdedup.InFlight:
						t.Errorf("key %d: %v", k, answers[0].Outcome)
					}
				}
			})
		}
	}
	wg.Wait()
	for k := range winners {
		if n := winners[k].Load(); n != 1 {
			t.Errorf("key %d has %d winners", k, n)
		}
	}
}

// A table that one node makes while the others open it.
func TestGaleraMigrate(t *testing.T) {
	all := nodes(t)
	name := newName()
	tb := &table{name: name, admin: newAdmin(t, all[0])}
	t.Cleanup(func() { tb.exec(t, "DROP TABLE IF EXISTS `"+name+"`") })
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() {
			s, err := mysql.Open(context.Background(), withOptions(all[i%len(all)], "table="+name, "migrate=true", "call_timeout=30s"))
			if err != nil {
				t.Error(err)
				return
			}
			want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, request(fmt.Sprintf("key-%d", i)))
			_ = s.Close()
		})
	}
	wg.Wait()
}
