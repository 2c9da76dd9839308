package storagetest

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The times of most tests. They are hours apart, so that how long a test takes makes no difference, and each differs
// from the others, so that one that was used in another's place is seen.
const (
	lease     = 1 * time.Hour
	grace     = 4 * time.Hour
	retention = 8 * time.Hour

	newLease     = 2 * time.Hour // what the operation under test asks for
	newGrace     = 5 * time.Hour
	newRetention = 16 * time.Hour

	slack = 2 * time.Minute // more than a test takes
)

// limit ends a test whose store hangs.
const limit = 2 * time.Minute

// A fixture is one test's table, a store on it, and the means to use it.
type fixture struct {
	testing.TB
	Config
	table      Table
	store      rmqdedup.Store
	ctx        context.Context
	resolution time.Duration
	keys       int // how many were made by newKey
}

func newFixture(t testing.TB, c Config) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	f := &fixture{TB: t, Config: c, table: c.NewTable(t), ctx: ctx, resolution: time.Millisecond}
	f.store = f.table.Store(t)
	if r, ok := rmqdedup.Find[rmqdedup.Resolver](f.store); ok {
		f.resolution = r.Resolution()
	}
	return f
}

// on returns f with another store in its place, usually another handle on its table.
func (f *fixture) on(s rmqdedup.Store) *fixture {
	g := *f
	g.store = s
	return &g
}

// random returns a source of random numbers whose seed is logged, or was given.
func (f *fixture) random() *rand.Rand {
	f.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("RMQDEDUP_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			f.Fatalf("RMQDEDUP_SEED: %v; give it the number that a failed test logged", err)
		}
		seed = n
	}
	f.Logf("RMQDEDUP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// group is the consumer group of the keys that do not name one.
const group = "storagetest"

func key(value string) rmqdedup.Key {
	return rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, group, "orders", "paid", value)
}

// newKey returns a key that the test has not used.
func (f *fixture) newKey() rmqdedup.Key {
	f.keys++
	return key("key-" + strconv.Itoa(f.keys))
}

// request returns a request of the owner for the key, with the times that setups use, and a message that is told by the
// owner alone.
func request(k rmqdedup.Key, owner rmqdedup.Owner) rmqdedup.Request {
	return rmqdedup.Request{
		Key: k, Owner: owner, Lease: lease, Grace: grace, Retention: retention,
		MessageID:   strings.ToUpper(owner.String()),
		Attempt:     int(owner[0] % 16),
		Fingerprint: binary.BigEndian.Uint64(owner[8:]),
	}
}

// by returns q as another owner would send it.
func by(owner rmqdedup.Owner, q rmqdedup.Request) rmqdedup.Request {
	p := request(q.Key, owner)
	p.Lease, p.Grace, p.Retention = q.Lease, q.Grace, q.Retention
	return p
}

// stranger returns q as a new owner would send it.
func stranger(q rmqdedup.Request) rmqdedup.Request { return by(rmqdedup.NewOwner(), q) }

// do sends requests in one call, and checks what is true of every answer.
func (f *fixture) do(op rmqdedup.Op, reqs ...rmqdedup.Request) []rmqdedup.Answer {
	f.Helper()
	sent := slices.Clone(reqs)
	answers, err := rmqdedup.Do(f.ctx, f.store, op, sent)
	if err != nil {
		f.Fatalf("%v of %d keys: %v", op, len(reqs), err)
	}
	if len(answers) != len(reqs) {
		f.Fatalf("%v of %d keys: %d answers; there must be one for each, in order", op, len(reqs), len(answers))
	}
	if !slices.Equal(sent, reqs) {
		f.Fatalf("%v changed the caller's slice of requests", op)
	}
	for i, a := range answers {
		if problem := malformed(op, a); problem != "" {
			f.Fatalf("%v of %v: %s: %s", op, reqs[i].Key, describe(a), problem)
		}
	}
	return answers
}

// one sends one request, whose answer must not be an error.
func (f *fixture) one(op rmqdedup.Op, q rmqdedup.Request) rmqdedup.Answer {
	f.Helper()
	a := f.do(op, q)[0]
	if a.Err != nil {
		f.Fatalf("%v of %v: %v", op, q.Key, a.Err)
	}
	return a
}

// record looks up a key that must not be absent.
func (f *fixture) record(q rmqdedup.Request) rmqdedup.Record {
	f.Helper()
	a := f.one(rmqdedup.OpLookup, q)
	if a.Record == nil {
		f.Fatalf("lookup of %v: %s; want a record", q.Key, describe(a))
	}
	return *a.Record
}

// want sends requests in one call, each of which must have that outcome.
func (f *fixture) want(outcome rmqdedup.Outcome, op rmqdedup.Op, reqs ...rmqdedup.Request) {
	f.Helper()
	for i, a := range f.do(op, reqs...) {
		if a.Outcome != outcome {
			f.Fatalf("%v of %v: %s; want %v", op, reqs[i].Key, describe(a), outcome)
		}
	}
}

// age lets time pass for the key of each request.
func (f *fixture) age(d time.Duration, reqs ...rmqdedup.Request) {
	f.Helper()
	for _, q := range reqs {
		f.table.Age(f, q.Key, d)
	}
}

// answersOf are the outcomes that each operation has.
var answersOf = map[rmqdedup.Op][]rmqdedup.Outcome{
	rmqdedup.OpAcquire:  {rmqdedup.Claimed, rmqdedup.TakenOver, rmqdedup.InFlight, rmqdedup.Done},
	rmqdedup.OpRenew:    {rmqdedup.Applied, rmqdedup.Lost},
	rmqdedup.OpComplete: {rmqdedup.Applied, rmqdedup.Done, rmqdedup.Lost},
	rmqdedup.OpRelease:  {rmqdedup.Applied, rmqdedup.Lost},
	rmqdedup.OpAbandon:  {rmqdedup.Applied, rmqdedup.Lost},
	rmqdedup.OpLookup:   {rmqdedup.Absent, rmqdedup.InFlight, rmqdedup.Orphan, rmqdedup.Done},
	rmqdedup.OpForget:   {rmqdedup.Applied, rmqdedup.Absent, rmqdedup.InFlight},
}

// malformed says what is wrong with an answer whatever the table holds.
func malformed(op rmqdedup.Op, a rmqdedup.Answer) string {
	carries := op == rmqdedup.OpLookup && a.Outcome != rmqdedup.Absent ||
		op == rmqdedup.OpAcquire && (a.Outcome == rmqdedup.InFlight || a.Outcome == rmqdedup.Done)
	switch {
	case a.Err != nil && (a.Outcome != 0 || a.Left != 0 || a.Record != nil):
		return "an answer with an error has nothing else"
	case a.Err != nil:
		return ""
	case !slices.Contains(answersOf[op], a.Outcome):
		return "this operation has no such outcome"
	case a.Outcome == rmqdedup.InFlight && a.Left <= 0:
		return "in flight, with no time left: then its deadline has passed"
	case a.Outcome != rmqdedup.InFlight && a.Left != 0:
		return "time is left only for what is in flight"
	case carries && a.Record == nil:
		return "the record is missing"
	case (a.Outcome == rmqdedup.Claimed || a.Outcome == rmqdedup.Absent) && a.Record != nil:
		return "there was nothing, yet there is a record"
	case a.Record != nil && (a.Outcome == rmqdedup.Done) != a.Record.Done:
		return "outcome and record disagree about DONE"
	}
	return ""
}

// describe returns an answer for people.
func describe(a rmqdedup.Answer) string {
	if a.Err != nil {
		return "error " + strconv.Quote(a.Err.Error())
	}
	s := a.Outcome.String()
	if a.Left != 0 {
		s += ", " + a.Left.String() + " left"
	}
	if r := a.Record; r != nil {
		s += ", record of " + r.Owner.String() + " and message " + strconv.Quote(r.MessageID)
	}
	return s
}

// badRequest fails the test unless err is what a request that no store can serve is answered with.
func (f *fixture) badRequest(what string, err error) {
	f.Helper()
	if !errors.Is(err, rmqdedup.ErrBadRequest) {
		f.Errorf("%s: error %v; want one that wraps ErrBadRequest", what, err)
	}
}
