package redis_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// When Sentinel has promoted the replica of a master that died, the store goes on with it, and what had been replicated is there.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	master := startServer(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master.addr)
	replica := startServer(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	sentinelPort := freePort(t)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := strings.Join([]string{
		"port " + sentinelPort, "bind 127.0.0.1", "dir " + t.TempDir(),
		"sentinel monitor mymaster " + host + " " + port + " 1",
		"sentinel down-after-milliseconds mymaster 500",
		"sentinel failover-timeout mymaster 5000", "",
	}, "\n")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := start(t, sentinelPort, "+monitor master mymaster", config, "--sentinel")
	eventually(t, "the Sentinel knows the replica", func() bool {
		replicas, _ := sentinel.do(t, "sentinel", "replicas", "mymaster").([]any)
		return len(replicas) == 1 && strings.Contains(replica.do(t, "info", "replication").(string), "master_link_status:up")
	})

	s := open(t, "redis+sentinel://"+sentinel.addr+"?master_name=mymaster&timeout=2s&prefix="+prefix)
	held := named("held", 50)
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, held...)
	master.do(t, "wait", 1, 5000)

	master.signal(t, syscall.SIGKILL)
	if _, err := s.Acquire(t.Context(), named("new", 50)); err == nil {
		t.Error("a claim without a master: no error")
	}
	eventually(t, "the replica has taken over", func() bool {
		answers, err := s.Acquire(t.Context(), named("later", 1))
		return err == nil && answers[0].Err == nil
	})
	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, strangers(held...)...)
	want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, held...)
	want(t, s, rmqdedup.Done, rmqdedup.OpAcquire, strangers(held...)...)
}
