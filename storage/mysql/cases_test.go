package mysql_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// With clientFoundRows, a row that is found and not changed counts as affected: who takes that for a claim has two winners.
func TestCase9OneWinnerOfAnExpiredClaim(t *testing.T) {
	const claimants, rounds = 8, 10
	for _, found := range []string{"false", "true"} {
		for how, open := range map[string]opener{
			"URL":  byURL("clientFoundRows=" + found),
			"pool": byGorm([]setting{option("clientFoundRows", found), {name: "Conn", pool: true}}),
		} {
			t.Run(how+", clientFoundRows="+found, func(t *testing.T) {
				onEach(t, func(t *testing.T, server string) {
					tb := newTable(t, server, open)
					s := tb.Store(t)
					for round := range rounds {
						r := request(fmt.Sprint("key ", round))
						want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
						tb.Age(t, r.Key, 2*r.Lease)
						answers := race(t, s, r, claimants)
						if answers[rmqdedup.TakenOver] != 1 || answers[rmqdedup.InFlight] != claimants-1 {
							t.Errorf("round %d: %v; want one taken over, and the others in flight", round, answers)
						}
					}
				})
			})
		}
	}
}

// race has several owners acquire one key at once, and counts their answers.
func race(t *testing.T, s rmqdedup.Store, r rmqdedup.Request, claimants int) map[rmqdedup.Outcome]int {
	t.Helper()
	outcomes := make([]rmqdedup.Outcome, claimants)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range outcomes {
		all.Go(func() {
			<-start
			answers, err := s.Acquire(t.Context(), []rmqdedup.Request{by(r)})
			if err != nil || answers[0].Err != nil {
				t.Errorf("acquire: %v, error %v", answers, err)
				return
			}
			outcomes[i] = answers[0].Outcome
		})
	}
	close(start)
	all.Wait()
	counts := make(map[rmqdedup.Outcome]int)
	for _, o := range outcomes {
		counts[o]++
	}
	return counts
}

// Neither gorm's translated errors nor a driver that wraps them may hide what the server said.
func TestCase11DuplicatesWhateverBecomesOfErrors(t *testing.T) {
	for _, translate := range []bool{false, true} {
		for _, name := range []string{"", wrappedDriver} {
			t.Run(fmt.Sprintf("TranslateError=%v driver=%q", translate, name), func(t *testing.T) {
				onEach(t, func(t *testing.T, server string) { checkDuplicates(t, server, name, translate) })
			})
		}
	}
}

func checkDuplicates(t *testing.T, server, driverName string, translate bool) {
	t.Helper()
	tb := newTable(t, server, func(t testing.TB, server, table string) rmqdedup.Store {
		t.Helper()
		dialector := gormmysql.New(gormmysql.Config{DriverName: driverName, DSN: dsnOf(server)})
		return newStore(t, newDB(t, dialector, func(c *gorm.Config) { c.TranslateError = translate }), table)
	})
	s := tb.Store(t)
	one := request("one")
	many := []rmqdedup.Request{request("a"), request("b"), request("c")}
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, one)
	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, by(one))
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, many...)
	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, by(many[0]), by(many[1]), by(many[2]))
	// What a business transaction holds locked is in flight: the server's error 1205 says so.
	unlock := tb.lock(t, one.Key)
	answers, err := s.Acquire(t.Context(), []rmqdedup.Request{by(one)})
	if err != nil || answers[0].Outcome != rmqdedup.InFlight || answers[0].Left < time.Second {
		t.Errorf("a locked row: %v, error %v; want in flight", answers, err)
	}
	unlock()
	for _, reqs := range [][]rmqdedup.Request{{one}, many} {
		want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, reqs...)
		for _, r := range reqs {
			want(t, s, rmqdedup.Done, rmqdedup.OpAcquire, by(r))
		}
	}
}

// lock holds a key's row locked, as a transaction of the application does, until it is told to end.
func (tb *table) lock(t testing.TB, key rmqdedup.Key) (unlock func()) {
	t.Helper()
	tx, err := tb.admin.Begin()
	if err != nil {
		t.Fatal(err)
	}
	d := key.Digest()
	var status int
	if err := tx.QueryRow(fmt.Sprintf("SELECT status FROM `%s` WHERE digest = ? FOR UPDATE", tb.name), d[:]).Scan(&status); err != nil {
		t.Errorf("lock: %v", err)
	}
	end := sync.OnceFunc(func() {
		if err := tx.Rollback(); err != nil {
			t.Errorf("unlock: %v", err)
		}
	})
	t.Cleanup(end)
	return end
}
