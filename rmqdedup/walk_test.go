package rmqdedup_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestRandomWalk sends consumer groups through random lives and holds them to the contract.
//
// A walk is one group: wrappers on one shared memory store, each under a model of the client (walk_member_test.go, walk_queue_test.go,
// walk_concurrent_test.go, walk_ordered_test.go) that is fed by a model of the broker (walk_broker_test.go). Members crash, leave and join, queues
// move and are replayed, the store answers late, twice or not at all (walk_wire_test.go), handlers fail, panic, hang and ignore their
// context (walk_business_test.go). After that storm (walk_storm_test.go) everything heals, what is left is consumed, and the group shuts down.
// All the while walk_laws_*_test.go watch. Time is the bubble's: a walk of an hour takes some milliseconds.
//
// Everything that the environment decides comes from the walk's seed (walk_plan_test.go), and does not depend on the order in which goroutines
// run. What is not decided by the seed is that order, and the random part of the wrapper's own pauses. So a failure's seed nearly
// always fails again, if not at the first try:
//
//	RMQDEDUP_WALK=17 go test ./rmqdedup -run RandomWalk          seed 17, with its whole diary
//	RMQDEDUP_WALK=17x200 go test ./rmqdedup -run RandomWalk      the same 200 times, or until it fails
//	RMQDEDUP_WALKS=5000 go test ./rmqdedup -run RandomWalk       5000 walks from a random seed on
func TestRandomWalk(t *testing.T) {
	itinerary := planWalks(t)
	seen := newSightings()
	var taken atomic.Uint64
	t.Run("walks", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					n := taken.Add(1) - 1
					if n >= itinerary.walks {
						return
					}
					walk(t, itinerary.seed(n), itinerary.replay, seen)
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	t.Logf("%d walks; seen on the way: %v", itinerary.walks, seen)
	if !itinerary.replay {
		seen.check(t)
	}
}

// ordinaryWalks is how many walks an ordinary run takes, always from the same seeds; longWalks, from new ones, how many a long run.
const (
	ordinaryWalks = 500
	longWalks     = 20_000
)

type itinerary struct {
	walks, first uint64
	replay       bool // every walk has the first seed
}

func (i itinerary) seed(n uint64) uint64 {
	if i.replay {
		return i.first
	}
	return i.first + n
}

func planWalks(t *testing.T) itinerary {
	number := func(name, s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s is no number: %v", name, err)
		}
		return n
	}
	if s := os.Getenv("RMQDEDUP_WALK"); s != "" {
		seed, times, many := strings.Cut(s, "x")
		i := itinerary{walks: 1, first: number("RMQDEDUP_WALK", seed), replay: true}
		if many {
			i.walks = number("RMQDEDUP_WALK", times)
		}
		return i
	}
	random := rand.Uint64N(1 << 40)
	if s := os.Getenv("RMQDEDUP_WALKS"); s != "" {
		return itinerary{walks: number("RMQDEDUP_WALKS", s), first: random}
	}
	if os.Getenv("RMQDEDUP_LONG") != "" {
		return itinerary{walks: longWalks, first: random}
	}
	return itinerary{walks: ordinaryWalks, first: 1}
}

// walk lives one life in a bubble of its own and reports what broke a law.
func walk(t *testing.T, seed uint64, replay bool, seen *sightings) {
	w := newWorld(seed)
	defer func() {
		// A bubble whose goroutines can never end panics in the goroutine that waits for it.
		if p := recover(); p != nil {
			w.violations = append(w.violations, fmt.Sprintf("the bubble did not end, so goroutines of the wrapper are left: %v", p))
		}
		if len(w.violations) > 0 {
			t.Errorf("walk %d: %s\n\nReplay with RMQDEDUP_WALK=%[1]d (or %[1]dx200)", seed, w.report(replay))
		}
		seen.add(w)
	}()
	synctest.Test(t, func(*testing.T) { w.live() })
	if replay && testing.Verbose() && len(w.violations) == 0 {
		fmt.Println(w.report(true))
	}
}
