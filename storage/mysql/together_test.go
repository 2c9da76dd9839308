package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A key that makes a statement fail fails alone, in a call of several keys and among calls that share a statement: whether the server refuses
// its row, or the connection breaks of it.
func TestPoisonedKey(t *testing.T) {
	const poison = "poison"
	refused := func(t *testing.T, server string) rmqdedup.Store {
		tb := newTable(t, server, byURL())
		tb.exec(t, "ALTER TABLE `"+tb.name+"` ADD CONSTRAINT `"+tb.name+"_c` CHECK (tag <> '"+poison+"')")
		return tb.Store(t)
	}
	breaks := func(t *testing.T, server string) rmqdedup.Store {
		mysqldriver.RegisterDialContext("breaking", func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return breaking{c, []byte(poison)}, err
		})
		return newTable(t, server, func(t testing.TB, server, table string) rmqdedup.Store {
			return open(t, strings.Replace(dsnOf(server, "table="+table), "@tcp(", "@breaking(", 1))
		}).Store(t)
	}
	for name, poisoned := range map[string]func(*testing.T, string) rmqdedup.Store{"Refused": refused, "Breaks": breaks} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, server string) {
				s := poisoned(t, server)
				bad := func(i int) rmqdedup.Request {
					r := request(fmt.Sprintf("bad-%d", i))
					r.Key = rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "group", "orders", poison, r.Key.Value)
					return r
				}
				reqs := []rmqdedup.Request{request("a"), bad(0), request("b"), request("c")}
				for i, a := range mustDoSome(t, s, rmqdedup.OpAcquire, reqs) {
					if isBad := i == 1; isBad != (a.Err != nil) || !isBad && a.Outcome != rmqdedup.Claimed {
						t.Errorf("of several keys, %v: %v %v", reqs[i].Key, a.Outcome, a.Err)
					}
				}
				var wg sync.WaitGroup
				for g := range 20 {
					wg.Go(func() {
						for i := range 20 {
							r := request(fmt.Sprintf("good-%d-%d", g, i))
							if g == 0 {
								r = bad(i)
							}
							// What is alone in its call fails as the call.
							answers, err := s.Acquire(t.Context(), []rmqdedup.Request{r})
							if err == nil {
								err = answers[0].Err
							}
							if (g == 0) != (err != nil) || err == nil && answers[0].Outcome != rmqdedup.Claimed {
								t.Errorf("%v: %v, error %v", r.Key, answers, err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// A breaking connection ends when something is written that has the poison in it.
type breaking struct {
	net.Conn
	poison []byte
}

func (c breaking) Write(b []byte) (int, error) {
	if !bytes.Contains(b, c.poison) {
		return c.Conn.Write(b)
	}
	n, _ := c.Conn.Write(b[:len(b)/2])
	_ = c.Close()
	_, err := c.Conn.Write(b[n:])
	return n, err
}

// Who meets a locked row waits for it, and once that is known no others wait with them: none of their calls lasts as long as that wait does.
func TestLockedRowHoldsUpNobody(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		s := tb.Store(t)
		locked := request("locked")
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, locked)
		unlock := tb.lock(t, locked.Key)
		defer unlock()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		type span struct{ from, to time.Time }
		var mu sync.Mutex
		var spans []span
		var wg sync.WaitGroup
		for g := range 63 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					r := request(fmt.Sprintf("%d-%d", g, i))
					from := time.Now()
					answers, err := s.Acquire(t.Context(), []rmqdedup.Request{r})
					if err != nil || answers[0].Outcome != rmqdedup.Claimed {
						t.Errorf("%v: %v, error %v", r.Key, answers, err)
						return
					}
					mu.Lock()
					spans = append(spans, span{from, time.Now()})
					mu.Unlock()
				}
			})
		}
		var waits []span
		for range 3 {
			from := time.Now()
			want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, by(locked))
			waits = append(waits, span{from, time.Now()})
		}
		answers, err := s.Complete(t.Context(), []rmqdedup.Request{locked})
		if err == nil {
			err = answers[0].Err
		}
		if !errors.Is(err, rmqdedup.ErrLocked) {
			t.Errorf("complete of the locked key: %v, error %v", answers, err)
		}
		cancel()
		wg.Wait()
		for i, w := range waits[1:] {
			for _, c := range spans {
				if !c.from.After(w.from) && !c.to.Before(w.to) {
					t.Fatalf("a call on another key took as long as wait %d for the locked row, and it is one of %d", i+2, len(spans))
				}
			}
		}
	})
}
