package e2e

import (
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage"
)

// A storeKind says what kind of store a story needs.
type storeKind int

const (
	shared  storeKind = iota // on a server
	fragile                  // on a server, over a line that can be cut
	private                  // this process's memory, where a server adds nothing
	none                     // the client alone
)

// A server is one that the states of stories are kept on.
type server struct {
	name     string // in the test's name
	variable string // of the environment, which has its URL
	table    bool   // it is a database: each story has a table of its own
}

// All stories are played on Redis. Those whose point is what becomes of a claim (setting.claims) are played on the databases too: on the
// real broker with MySQL and in process with MariaDB, or, where there is time, all stories that need a server on all four pairs.
var (
	onRedis   = server{variable: "RMQDEDUP_REDIS"}
	databases = []server{{"mysql", "RMQDEDUP_MYSQL", true}, {"mariadb", "RMQDEDUP_MARIADB", true}}
)

// servers are those that a story is played on with the broker at place i of brokers.
func (set *setting) servers(i int) []server {
	var all []server
	if !set.tables {
		all = append(all, onRedis)
	}
	switch {
	case set.store != shared && set.store != fragile:
	case long:
		all = append(all, databases...)
	case set.tables:
		all = append(all, databases...)
	case set.claims:
		all = append(all, databases[i])
	}
	return all
}

func (s *story) openStore() {
	s.Helper()
	switch s.set.store {
	case none:
		return
	case private:
		s.url = "memory://"
	case shared, fragile:
		_, alone := s.broker.(*inProcess)
		if s.url = os.Getenv(s.server.variable); s.url == "" && alone && !s.server.table && s.set.store == shared {
			s.url = "memory://" // so that most stories are played on a machine that has only Go
			break
		}
		s.url = testenv.Require(s.T, s.server.variable)
		if s.server.table {
			s.url = testenv.OwnTable(s.T, s.url) // so that a janitor in it sweeps no other story's claims
			s.must(storage.Migrate(s.ctx, s.url))
		}
		if s.set.store == fragile {
			u, err := url.Parse(s.url)
			s.must(err)
			s.line = newLine(s, u.Host, nil)
			u.Host = s.line.listener.Addr().String()
			s.url = u.String()
		}
	}
	store, err := storage.Open(s.ctx, s.url)
	s.must(err)
	s.Cleanup(func() {
		if err := store.Close(); err != nil {
			s.Errorf("closing the store: %v", err)
		}
	})
	s.store = s.journal.store(store)
}

// takenOver waits until n claims on a message have been taken over, where the store tells of that: a table keeps what an owner that died has left until
// a janitor comes, and has a record of it; in Redis a claim is gone when it ends, if no checker is to see it, and the message is as new.
func (s *story) takenOver(name string, n int) {
	s.Helper()
	if !s.server.table {
		s.want(0, rmqdedup.EventTakenOver, name)
		return
	}
	s.expect(rmqdedup.EventTakenOver)
	s.await(rmqdedup.EventTakenOver, name, n)
	s.want(n, rmqdedup.EventTakenOver, name)
	for _, e := range s.journal.all(rmqdedup.EventTakenOver, name) {
		if e.of == "" {
			s.Errorf("%q was taken over, and the event does not say from which message", name)
		}
	}
}

// A rival is another process that has claimed a message, played by the story itself.
type rival struct {
	s    *story
	req  rmqdedup.Request
	stop func()
}

func (s *story) key(name string) rmqdedup.Key {
	return rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, s.group, s.topic, "", name)
}

// rival claims a message, and renews its claim until it finishes, fails or dies.
func (s *story) rival(name string, lease time.Duration) *rival {
	s.Helper()
	r := &rival{s: s, req: rmqdedup.Request{
		Key: s.key(name), Owner: rmqdedup.NewOwner(), Lease: lease, Retention: time.Minute,
		MessageID: "rival", Fingerprint: rmqdedup.Fingerprint(bodyOf(name)),
	}}
	r.do(rmqdedup.OpAcquire, rmqdedup.Claimed)
	stop, stopped := make(chan struct{}), make(chan struct{})
	r.stop = sync.OnceFunc(func() { close(stop); <-stopped })
	s.Cleanup(r.stop)
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(lease / 6)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_, _ = s.store.Renew(s.ctx, []rmqdedup.Request{r.req})
			case <-stop:
				return
			}
		}
	}()
	return r
}

func (r *rival) dies() { r.stop() }

func (r *rival) finishes() {
	r.s.Helper()
	r.stop()
	r.do(rmqdedup.OpComplete, rmqdedup.Applied)
}

func (r *rival) fails() {
	r.s.Helper()
	r.stop()
	r.do(rmqdedup.OpRelease, rmqdedup.Applied)
}

func (r *rival) do(op rmqdedup.Op, want rmqdedup.Outcome) {
	r.s.Helper()
	answers, err := rmqdedup.Do(r.s.ctx, r.s.store, op, []rmqdedup.Request{r.req})
	r.s.must(err)
	if a := answers[0]; a.Err != nil || a.Outcome != want {
		r.s.Fatalf("a rival's %v of %q: %v, %v; want %v", op, r.req.Key.Value, a.Outcome, a.Err, want)
	}
}

// free ends a message's claim as an operator does: whoever holds it, nobody does from now on.
func (s *story) free(name string) {
	s.Helper()
	answers, err := s.store.Lookup(s.ctx, []rmqdedup.Request{{Key: s.key(name)}})
	s.must(err)
	if answers[0].Record == nil {
		s.Fatalf("%q is %v", name, answers[0].Outcome)
	}
	r := rival{s: s, req: rmqdedup.Request{Key: s.key(name), Owner: answers[0].Record.Owner}}
	r.do(rmqdedup.OpAbandon, rmqdedup.Applied)
}

// state is what the store says of a message.
func (s *story) state(name string) rmqdedup.Outcome {
	s.Helper()
	answers, err := s.store.Lookup(s.ctx, []rmqdedup.Request{{Key: s.key(name)}})
	s.must(err)
	s.must(answers[0].Err)
	return answers[0].Outcome
}
