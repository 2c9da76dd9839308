package storagetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// The size of histories. Few keys, so that clients meet; owners that clients share, so that they come late.
const (
	histories      = 40
	historyClients = 6
	historyCalls   = 25 // a client
	historyKeys    = 3
	historyOwners  = historyClients
	historyHandles = 3

	// Each failed operation may have acted at any time after it was sent, which makes checking costly.
	historyFailures = 4
)

// checkHistories runs random operations at once and asks whether some order of them, one after the other, explains
// every answer: that is what it means that each operation is atomic.
func checkHistories(f *fixture) {
	random := f.random()
	together := f.handles(historyHandles)
	alone := together
	if a, ok := f.table.(Aloner); ok && !f.ExactBatches {
		alone = []rmqdedup.Store{a.Alone(f), a.Alone(f)}
	}
	n := histories
	if testing.Short() {
		n /= 4
	}
	for i := range n {
		h := &history{f: f, id: i, start: time.Now(), several: f.ExactBatches}
		stores := alone
		if !f.ExactBatches && i%2 == 0 {
			h.several, h.polite, stores = true, true, together[:2] // few, for their clients to meet
		}
		for range historyOwners {
			h.owners = append(h.owners, rmqdedup.NewOwner())
		}
		for range historyKeys {
			h.keys = append(h.keys, f.newKey())
		}
		if h.run(random, stores); f.Failed() {
			return
		}
		if !h.check() {
			return
		}
	}
}

// A history is what several clients did to a few keys, and when.
type history struct {
	f      *fixture
	id     int
	start  time.Time
	owners []rmqdedup.Owner
	keys   []rmqdedup.Key

	several bool // keys a call
	polite  bool // each client is an owner of its own, which completes what it has claimed, and there is no operator

	holders [historyKeys]atomic.Int32 // who claimed last, as far as clients know

	mu         sync.Mutex
	operations []porcupine.Operation
	failures   int
}

func (h *history) run(random *rand.Rand, stores []rmqdedup.Store) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for client := range historyClients {
		c := &historyClient{history: h, id: client, store: stores[client%len(stores)], random: rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))}
		wg.Go(func() {
			<-begin
			for range historyCalls {
				c.call()
			}
		})
	}
	close(begin)
	wg.Wait()
}

// check says whether the history is linearizable, and prints the part of it that is not.
func (h *history) check() bool {
	h.f.Helper()
	model := porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, historyKeys)
			for _, o := range all {
				k := o.Input.(modelInput).key
				parts[k] = append(parts[k], o)
			}
			return parts
		},
		Init: func() any { return modelState{} },
		Step: func(state, in, out any) (bool, any) {
			return state.(modelState).step(in.(modelInput), out.(modelOutput))
		},
		DescribeOperation: func(in, out any) string { return in.(modelInput).String() + " → " + out.(modelOutput).String() },
		DescribeState:     func(state any) string { return state.(modelState).String() },
	}
	const patience = 20 * time.Second
	for k, part := range model.Partition(h.operations) {
		result, info := porcupine.CheckOperationsVerbose(model, part, patience)
		switch result {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			h.f.Logf("history %d, key %d: not decided within %v, and taken for right", h.id, k, patience)
			continue
		}
		page := filepath.Join(h.f.ArtifactDir(), "history.html")
		if err := porcupine.VisualizePath(model, info, page); err != nil {
			h.f.Logf("drawing the history: %v", err)
		}
		h.f.Errorf("history %d is not linearizable: no order of these operations on key %d explains their answers. %s\n%s\nThe order that goes farthest:\n%s",
			h.id, k, "With go test -artifacts, history.html shows how far one goes.", transcript(model, part), farthest(model, info))
		return false
	}
	return true
}

// farthest writes down the end of the order that explains the most operations, with the state of the table after each.
func farthest(model porcupine.Model, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	const end = 12
	var b strings.Builder
	state := model.Init()
	for i, o := range longest {
		_, state = model.Step(state, o.Input, o.Output)
		if i >= len(longest)-end {
			fmt.Fprintf(&b, "\tclient %d, from %v, %s: %s\n", o.ClientId, time.Duration(o.Call), model.DescribeOperation(o.Input, o.Output), model.DescribeState(state))
		}
	}
	return b.String()
}

// transcript writes the operations down in the order in which they were sent.
func transcript(model porcupine.Model, part []porcupine.Operation) string {
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range part {
		end := "…"
		if o.Return != math.MaxInt64 {
			end = time.Duration(o.Return).String()
		}
		fmt.Fprintf(&b, "\tclient %d, %v to %s, %s\n", o.ClientId, time.Duration(o.Call), end, model.DescribeOperation(o.Input, o.Output))
	}
	return b.String()
}

// A historyClient sends one operation after the other.
type historyClient struct {
	*history
	id     int
	store  rmqdedup.Store
	random *rand.Rand
	claims [historyKeys]bool // that it was answered, and has not ended
}

// call does one thing to the table: mostly one of the store's operations, on one to three keys.
func (c *historyClient) call() {
	n := c.random.IntN(100)
	if c.polite {
		n = 18 + n*74/100 // all that changes something but an operator's doings, and lookups
	}
	switch {
	case n < 12:
		c.age()
	case n < 18:
		c.sweep()
	case n < 45:
		c.operate(rmqdedup.OpAcquire)
	case n < 53:
		c.operate(rmqdedup.OpRenew)
	case n < 63:
		c.operate(rmqdedup.OpComplete)
	case n < 75:
		c.operate(rmqdedup.OpRelease)
	case n < 83:
		c.operate(rmqdedup.OpAbandon)
	case n < 92:
		c.operate(rmqdedup.OpLookup)
	default:
		c.operate(rmqdedup.OpForget)
	}
}

func (c *historyClient) now() int64 { return int64(time.Since(c.start)) }

func (c *historyClient) operate(op rmqdedup.Op) {
	var reqs []rmqdedup.Request
	var inputs []modelInput
	keys := c.random.Perm(historyKeys)[:1+c.random.IntN(historyKeys)]
	several := c.several
	if c.polite { // what ends a claim may be followed by another's, before the row is read to see what became of it
		several = op == rmqdedup.OpAcquire || op == rmqdedup.OpComplete
	}
	if !several && op != rmqdedup.OpLookup {
		keys = keys[:1]
	}
	if c.polite && op == rmqdedup.OpComplete {
		if keys = slices.DeleteFunc(keys, func(k int) bool { return !c.claims[k] }); len(keys) == 0 {
			return
		}
	}
	for _, k := range keys {
		in := modelInput{key: k, op: op, owner: int(c.holders[k].Load())}
		switch {
		case c.polite:
			in.owner = c.id
		case c.random.IntN(2) == 0:
			in.owner = c.random.IntN(historyOwners)
		}
		q := request(c.keys[k], c.owners[in.owner])
		q.Lease, q.Grace, q.Retention = historyLease, historyGrace, historyRetention
		reqs, inputs = append(reqs, q), append(inputs, in)
	}
	ctx, cancel := c.context()
	defer cancel()
	call := c.now()
	answers, err := rmqdedup.Do(ctx, c.store, op, reqs)
	end := c.now()

	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && ctx.Err() == nil || err == nil && len(answers) != len(reqs) {
		c.f.Errorf("%v: %d answers of %d, error %v", op, len(answers), len(reqs), err)
		return
	}
	for i, in := range inputs {
		o := porcupine.Operation{ClientId: c.id, Input: in, Output: modelOutput{}, Call: call, Return: math.MaxInt64}
		if err == nil {
			if problem := malformed(op, answers[i]); problem != "" || answers[i].Err != nil {
				c.f.Errorf("%v: %s %s", in, describe(answers[i]), problem)
				return
			}
			o.Output, o.Return = c.output(answers[i]), end
			switch op {
			case rmqdedup.OpAcquire:
				c.claims[in.key] = answers[i].Outcome == rmqdedup.Claimed || answers[i].Outcome == rmqdedup.TakenOver
			case rmqdedup.OpComplete, rmqdedup.OpRelease, rmqdedup.OpAbandon:
				c.claims[in.key] = false
			}
			if answers[i].Outcome == rmqdedup.Claimed || answers[i].Outcome == rmqdedup.TakenOver {
				c.holders[in.key].Store(int32(in.owner))
			}
		}
		c.operations = append(c.operations, o)
	}
}

// context returns one that sometimes ends before the operation does.
func (c *historyClient) context() (context.Context, context.CancelFunc) {
	d := time.Duration(c.random.IntN(300)) * time.Microsecond
	if c.polite || c.random.IntN(20) > 0 {
		return context.WithCancel(c.f.ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures++; c.failures > historyFailures {
		return context.WithCancel(c.f.ctx)
	}
	return context.WithTimeout(c.f.ctx, d)
}

func (c *historyClient) output(a rmqdedup.Answer) modelOutput {
	out := modelOutput{known: true, outcome: a.Outcome, owner: noRecord}
	if a.Record != nil {
		out.owner = c.ownerOf(a.Record)
	}
	return out
}

func (c *historyClient) ownerOf(r *rmqdedup.Record) int {
	if i := slices.Index(c.owners, r.Owner); i >= 0 {
		return i
	}
	return free
}

// age lets a claim expire, or a retention end.
func (c *historyClient) age() {
	in := modelInput{key: c.random.IntN(historyKeys), age: ageClaim}
	if c.random.IntN(4) == 0 {
		in.age = ageDone
	}
	call := c.now()
	c.f.table.Age(c.f, c.keys[in.key], in.age)
	c.add(in, modelOutput{known: true}, call)
}

// sweep does what a janitor does, whose checker said of one orphan that its work was not done. Purging changes nothing
// that the model knows of.
func (c *historyClient) sweep() {
	s, ok := rmqdedup.Find[rmqdedup.Sweeper](c.store)
	if !ok {
		return
	}
	records, err := s.Expired(c.f.ctx, enough, true)
	if err != nil {
		c.f.Errorf("expired: %v", err)
		return
	}
	if _, err := s.Purge(c.f.ctx, 2); err != nil {
		c.f.Errorf("purge: %v", err)
		return
	}
	for _, i := range c.random.Perm(len(records)) {
		r := records[i]
		k := slices.IndexFunc(c.keys, func(k rmqdedup.Key) bool { return k.Digest() == r.Key.Digest() })
		if k < 0 {
			continue // an older history's
		}
		in := modelInput{key: k, clear: true, owner: c.ownerOf(&r)}
		call := c.now()
		n, err := s.Clear(c.f.ctx, []rmqdedup.Record{r})
		if err != nil {
			c.f.Errorf("clear: %v", err)
			return
		}
		c.add(in, modelOutput{known: true, cleared: n == 1}, call)
		return
	}
}

func (c *historyClient) add(in modelInput, out modelOutput, call int64) {
	end := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations = append(c.operations, porcupine.Operation{ClientId: c.id, Input: in, Output: out, Call: call, Return: end})
}
