package storagetest

import (
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A Table is what a harness gives to one test: records in a server, empty at first, that any number of stores may be
// opened on.
type Table interface {
	// Store opens one more store on the table, as another process would. It is closed by the harness when the test
	// ends; a test may have closed it before. An in-process store that cannot be opened twice may return the same one
	// again.
	Store(t testing.TB) rmqdedup.Store

	// Age moves the deadline of key's claim, or the end of its retention, by that much towards the past, as if the time
	// had gone by on the store's clock for this key alone. It changes nothing else, and does nothing where there is no
	// record. It is one atomic step and is called concurrently with the store's operations.
	Age(t testing.TB, key rmqdedup.Key, by time.Duration)
}

// An Aloner is a table of stores whose calls share statements, without [Config.ExactBatches].
type Aloner interface {
	// Alone is Store, of one whose calls have a statement each.
	Alone(t testing.TB) rmqdedup.Store
}

// A Config is a store's harness: how a table of it is made, and what the suite cannot find out by asking.
type Config struct {
	// NewTable returns an empty table. Each test calls it once and uses nothing of another test's. Required.
	NewTable func(t testing.TB) Table

	// KeepsParts declares that a Record from Lookup, List and Expired has the key's parts and value, as
	// [rmqdedup.Key.Readable] leaves them. Without it each of them may be empty instead, though never altered.
	KeepsParts bool

	// ServerClock declares that deadlines are set and judged by the clock of a server, so that a process whose own
	// clock is years off makes no difference. It is tested with a store that is opened inside a testing/synctest
	// bubble, used there by one call at a time, and closed there.
	ServerClock bool

	// ExactBatches declares that a call of several keys, or calls that share a statement, tell of each key exactly what became of it, even while
	// other processes act on the same keys as the same owners, or an operator forgets them. Without it histories are of two kinds: those in
	// which owners keep to their own claims, and those in which all do as they like, with one key a call, on stores that an [Aloner] opens. Owners being
	// random for each claim, only an operator, or a deadline that passes while a statement is under way, can make the difference.
	ExactBatches bool

	// DropsExpired declares that records past their time leave the table by themselves, so that a [rmqdedup.Sweeper]
	// may find fewer of them than there were.
	DropsExpired bool
}

// Run runs the suite: one subtest a rule. See the package documentation.
func Run(t *testing.T, c Config) {
	t.Helper()
	for _, check := range checks {
		t.Run(check.name, func(t *testing.T) { check.run(newFixture(t, c)) })
	}
}

// A check is one rule. It reports through the fixture's testing.TB, so that the tests of this package can watch it
// fail.
type check struct {
	name string
	run  func(f *fixture)
}

// checks are the rules, those first whose failure explains the failures of others.
var checks = []check{
	{"acquire", checkOperation(0)},
	{"renew", checkOperation(1)},
	{"complete", checkOperation(2)},
	{"release", checkOperation(3)},
	{"abandon", checkOperation(4)},
	{"lookup", checkOperation(5)},
	{"forget", checkOperation(6)},
	{"past the grace", checkPastGrace},
	{"many keys a call", checkManyKeys},
	{"no key a call", checkEmptyCalls},
	{"one key twice a call", checkSameKeyTwice},
	{"bad requests", checkBadRequests},
	{"long times", checkLongTimes},
	{"keys that look alike", checkLikeKeys},
	{"what records keep", checkMessages},
	{"late owners", checkLateOwner},
	{"lost replies", checkLostReply},
	{"given-up acquires", checkAbandon},
	{"done stays done", checkDoneStays},
	{"different graces", checkGraces},
	{"around the deadline", checkDeadline},
	{"real time", checkRealTime},
	{"another clock", checkServerClock},
	{"racing claimants", checkRace},
	{"neighbouring keys", checkNeighbours},
	{"ended contexts", checkEndedContext},
	{"ending contexts", checkEndingContexts},
	{"aliases", checkAliases},
	{"closing", checkClose},
	{"expired claims", checkExpired},
	{"clearing", checkClear},
	{"purging", checkPurge},
	{"several janitors", checkJanitors},
	{"sweeping with an ended context", checkSweepContext},
	{"listing", checkList},
	{"listing many", checkListMany},
	{"linearizability", checkHistories},
}
