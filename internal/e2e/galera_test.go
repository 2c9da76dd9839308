package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage"
)

// Case 9: two members keep the state on two nodes of a cluster that writes on each of them, and each order comes to both of them at once. One claims it,
// the other finds it in flight or done.
func TestMembersOnTwoNodes(t *testing.T) {
	nodes := strings.Split(os.Getenv("RMQDEDUP_GALERA"), ",")
	if len(nodes) < 2 {
		t.Skip(`RMQDEDUP_GALERA names no cluster. Start it: make up-galera && eval "$(make -s env)"`)
	}
	play(t, setting{queues: 2, store: none}, func(s *story) {
		first := testenv.OwnTable(s.T, nodes[0])
		_, options, _ := strings.Cut(first, "?")
		s.must(storage.Migrate(s.ctx, first))
		for i, url := range []string{first, nodes[1] + "?" + options} {
			store, err := storage.Open(s.ctx, url)
			s.must(err)
			s.Cleanup(func() { s.must(store.Close()) })
			s.join([]string{"a", "b"}[i], s.does(succeed), func(r *role) { r.store = s.journal.store(store) })
		}
		s.settle("a", "b")
		const n = 50
		for i := range n {
			name := fmt.Sprintf("order-%d", i)
			s.send(name, inQueue(0))
			s.send(name, inQueue(1))
		}
		for i := range n {
			s.await(rmqdedup.EventSuppressed, fmt.Sprintf("order-%d", i))
			s.want(1, started, fmt.Sprintf("order-%d", i))
		}
	})
}
