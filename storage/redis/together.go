package redis

import (
	"context"
	"sync"
	"time"

	"github.com/rmqdedup/rmqdedup-go/internal/coalesce"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// together are the operations whose calls share pipelines: those of a message.
var together = []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpRenew, rmqdedup.OpComplete, rmqdedup.OpRelease, rmqdedup.OpAbandon}

const (
	// step: see [coalesce.Window]. About the time that a pipeline takes, the way to the server apart.
	step = 50 * time.Microsecond
	// ahead is how many pipelines more there are than it takes to keep the way busy: the server's answers to one are read,
	// and the next put together, while it works on another.
	ahead = 1
	// mostPipelines may be under way from a store to a server.
	mostPipelines = 64
)

// coalescers has one for the server, or in a Cluster one for each of its nodes: calls for a node that is silent hold up no others.
type coalescers struct {
	off bool
	of  sync.Map // of the node's address, which is empty for a server alone, to *coalesce.Coalescer
}

// do runs an operation, in one pipeline with what other goroutines ask for at the same time.
func (s *Store) do(ctx context.Context, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
	if c := s.coalescer(ctx, reqs); c != nil {
		return c.Do(ctx, op, reqs)
	}
	return s.doAlone(ctx, op, reqs)
}

// coalescer returns that of the server which the requests are for, or nil if they are to go alone.
func (s *Store) coalescer(ctx context.Context, reqs []rmqdedup.Request) *coalesce.Coalescer {
	if s.calls.off {
		return nil
	}
	addr, name := "", ""
	if s.cluster != nil {
		if len(reqs) != 1 || !s.routed.Load() {
			return nil // they may be for several, or it is not known for which
		}
		name = s.name(&reqs[0].Key)
		node, err := s.cluster.MasterForKey(ctx, name)
		if err != nil {
			return nil // who asks next is told
		}
		addr = node.Options().Addr
	}
	if c, ok := s.calls.of.Load(addr); ok {
		return c.(*coalesce.Coalescer)
	}
	doAll := s.doAll
	if s.cluster != nil {
		doAll = nil // there, go-redis puts commands together by node
	}
	c, _ := s.calls.of.LoadOrStore(addr, coalesce.New(coalesce.Config{
		Name: "storage/redis", Ops: together, Do: s.doAlone, DoAll: doAll, Limit: s.timeout,
		Ping:   func(ctx context.Context) error { return s.ping(ctx, name) },
		Window: func(roundTrip time.Duration) int { return ahead + coalesce.Window(roundTrip, step, mostPipelines) },
	}))
	return c.(*coalesce.Coalescer)
}

// ping makes a round trip to the server, in a Cluster to that of the key with that name.
func (s *Store) ping(ctx context.Context, name string) error {
	_, err := ask(ctx, s, func(ctx context.Context) (string, error) {
		if s.cluster == nil {
			return s.client.Ping(ctx).Result()
		}
		node, err := s.cluster.MasterForKey(ctx, name)
		if err != nil {
			return "", err
		}
		return node.Ping(ctx).Result()
	})
	return err
}

// close returns when nothing is left that they have started.
func (c *coalescers) close() {
	c.of.Range(func(_, one any) bool {
		one.(*coalesce.Coalescer).Close()
		return true
	})
}
