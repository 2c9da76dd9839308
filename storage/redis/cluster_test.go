package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/redis"
)

// startCluster starts three masters with a third of the slots each, and a replica of the first.
func startCluster(t testing.TB) (masters []*server, replica *server) {
	t.Helper()
	var nodes []*server
	for range 4 {
		nodes = append(nodes, startServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"))
	}
	for i, n := range nodes[:3] {
		slots := []any{"cluster", "addslots"} // one by one, since a range is a Redis 7 matter
		for slot := 16384 * i / 3; slot < 16384*(i+1)/3; slot++ {
			slots = append(slots, slot)
		}
		n.do(t, "cluster", "set-config-epoch", i+1)
		n.do(t, slots...)
	}
	for _, n := range nodes[1:] {
		host, port, _ := strings.Cut(n.addr, ":")
		nodes[0].do(t, "cluster", "meet", host, port)
	}
	is := func(n *server, what string) bool { return strings.Contains(n.do(t, "cluster", "info").(string), what) }
	for _, n := range nodes {
		eventually(t, "the nodes know each other", func() bool { return is(n, "cluster_known_nodes:4") && is(n, "cluster_slots_ok:16384") })
	}
	nodes[3].do(t, "cluster", "replicate", nodes[0].do(t, "cluster", "myid"))
	for _, n := range nodes {
		eventually(t, "the nodes know their roles", func() bool {
			return is(n, "cluster_size:3") && strings.Count(n.do(t, "cluster", "nodes").(string), "slave") == 1
		})
	}
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(nodes[3].do(t, "info", "replication").(string), "master_link_status:up")
	})
	return nodes[:3], nodes[3]
}

func clusterClient(t testing.TB, seed *server, options ...func(*goredis.ClusterOptions)) *goredis.ClusterClient {
	t.Helper()
	o := &goredis.ClusterOptions{Addrs: []string{seed.addr}}
	for _, option := range options {
		option(o)
	}
	c := goredis.NewClusterClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// at returns those requests whose keys that node has, and the others.
func at(t testing.TB, c *goredis.ClusterClient, node *server, reqs []rmqdedup.Request) (there, elsewhere []rmqdedup.Request) {
	t.Helper()
	for _, r := range reqs {
		master, err := c.MasterForKey(t.Context(), redisName(r))
		if err != nil {
			t.Fatal(err)
		}
		if master.Options().Addr == node.addr {
			there = append(there, r)
		} else {
			elsewhere = append(elsewhere, r)
		}
	}
	return there, elsewhere
}

func TestCluster(t *testing.T) {
	t.Parallel()
	masters, replica := startCluster(t)
	// Each subtest has keys of its own, since what was sent to a silent node may still act.

	t.Run("replicas are not asked", func(t *testing.T) {
		c := clusterClient(t, masters[0], func(o *goredis.ClusterOptions) {
			o.ReadOnly, o.RouteRandomly, o.ContextTimeoutEnabled = true, true, true
		})
		s := newStore(t, c)
		reqs := named("replica", 300)
		for _, op := range allOps {
			do(t, s, op, reqs...)
			do(t, s, op, reqs[:1]...)
		}
		if stats := replica.do(t, "info", "commandstats").(string); strings.Contains(stats, "cmdstat_eval") {
			t.Errorf("the replica was asked: %s", stats)
		}
		want(t, s, rmqdedup.Absent, rmqdedup.OpLookup, reqs...)
	})

	t.Run("least rights", func(t *testing.T) {
		for _, n := range append(masters, replica) {
			n.do(t, append([]any{"acl", "setuser", "app", "on", ">secret", "~" + prefix + ":*", "-@all", "+cluster|slots"}, redis.Rights()...)...)
		}
		s := newStore(t, clusterClient(t, masters[0], func(o *goredis.ClusterOptions) { o.Username, o.Password = "app", "secret" }))
		reqs := named("rights", 50)
		for _, op := range allOps {
			for i, a := range do(t, s, op, reqs...) {
				if a.Err != nil {
					t.Fatalf("%v of request %d: %v", op, i, a.Err)
				}
			}
		}
		for _, err := range s.List(t.Context(), "group") {
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})

	t.Run("a slot moves", func(t *testing.T) { testMovingSlot(t, masters) })

	for _, heeds := range []bool{true, false} {
		t.Run(fmt.Sprintf("a node is silent, client heeds contexts: %v", heeds), func(t *testing.T) {
			const limit = 500 * time.Millisecond
			c := clusterClient(t, masters[0], func(o *goredis.ClusterOptions) { o.ContextTimeoutEnabled = heeds })
			s := newStore(t, c, within(limit))
			mine := named(fmt.Sprint("silent", heeds), 300)
			there, elsewhere := at(t, c, masters[2], mine)

			masters[2].stop(t)
			defer masters[2].carryOn(t)
			begin := time.Now()
			answers := do(t, s, rmqdedup.OpAcquire, mine...)
			if took := time.Since(begin); took > limit+5*time.Second {
				t.Errorf("it took %v", took)
			}
			wantOnly(t, mine, answers, there, func(a rmqdedup.Answer) bool { return errors.Is(a.Err, context.DeadlineExceeded) })
			want(t, s, rmqdedup.Applied, rmqdedup.OpRelease, elsewhere...)
			if _, err := s.Acquire(t.Context(), there); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the silent node's keys alone: error %v; want that of the call, since nothing is known", err)
			}
			masters[2].carryOn(t)
			eventually(t, "the node answers", func() bool {
				answers, err := s.Forget(t.Context(), there)
				return err == nil && answers[0].Err == nil
			})
		})
	}

	t.Run("a node dies", func(t *testing.T) { testFailover(t, masters) })
}

// wantOnly has the answers to those requests of all be failures of that kind, and those to the others claims.
func wantOnly(t testing.TB, all []rmqdedup.Request, answers []rmqdedup.Answer, failing []rmqdedup.Request, failed func(rmqdedup.Answer) bool) {
	t.Helper()
	fails := make(map[rmqdedup.Owner]bool)
	for _, r := range failing {
		fails[r.Owner] = true
	}
	if len(failing) == 0 || len(failing) == len(all) {
		t.Fatalf("%d of %d keys are on that node", len(failing), len(all))
	}
	for i, a := range answers {
		switch {
		case fails[all[i].Owner] && !failed(a):
			t.Errorf("key %d, on the node: %v, error %v", i, a.Outcome, a.Err)
		case !fails[all[i].Owner] && a.Outcome != rmqdedup.Claimed:
			t.Errorf("key %d, elsewhere: %v, error %v; want claimed", i, a.Outcome, a.Err)
		}
	}
}

// While its slot moves, and afterwards, a key is where the client does not expect it.
func testMovingSlot(t *testing.T, masters []*server) {
	c := clusterClient(t, masters[0])
	s := newStore(t, c)
	reqs := named("moving", 200)
	there, elsewhere := at(t, c, masters[1], reqs)
	moving, staying := there[0], slices.Concat(there[1:], elsewhere)
	slot := masters[0].do(t, "cluster", "keyslot", redisName(moving))
	from, to := masters[1], masters[2]
	fromID, toID := from.do(t, "cluster", "myid"), to.do(t, "cluster", "myid")
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, staying...)

	to.do(t, "cluster", "setslot", slot, "importing", fromID)
	from.do(t, "cluster", "setslot", slot, "migrating", toID)
	all := append([]rmqdedup.Request{moving}, staying...)
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, all...)
	to.do(t, "script", "flush", "sync") // so that ASK leads to a node that does not know the script
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, all...)
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, moving)
	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, strangers(moving)...)

	for _, n := range masters {
		n.do(t, "cluster", "setslot", slot, "node", toID)
	}
	to.do(t, "script", "flush", "sync")
	want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, all...)
	want(t, s, rmqdedup.Done, rmqdedup.OpAcquire, strangers(moving)...)
	want(t, s, rmqdedup.Applied, rmqdedup.OpForget, all...)
}

// When a master dies its keys alone fail, and when its replica has taken its place their claims are still there.
func testFailover(t *testing.T, masters []*server) {
	c := clusterClient(t, masters[1], func(o *goredis.ClusterOptions) { o.ContextTimeoutEnabled = true })
	s := newStore(t, c, within(2*time.Second))
	held, fresh := named("held", 200), named("fresh", 100)
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, held...)
	masters[0].do(t, "wait", 1, 5000)
	there, _ := at(t, c, masters[0], fresh)

	masters[0].signal(t, syscall.SIGKILL)
	answers := do(t, s, rmqdedup.OpAcquire, fresh...)
	wantOnly(t, fresh, answers, there, func(a rmqdedup.Answer) bool { return a.Err != nil })

	eventually(t, "the replica has taken over", func() bool {
		answers, err := s.Acquire(t.Context(), fresh)
		if err != nil {
			return false
		}
		for _, a := range answers {
			if a.Outcome != rmqdedup.Claimed {
				return false
			}
		}
		return true
	})
	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, strangers(held...)...)
	want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, held...)
}
