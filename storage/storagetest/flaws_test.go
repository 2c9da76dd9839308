//go:build unix

package storagetest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A flaw is one thing that a store does wrong, in words.
type flaw string

const (
	flawless flaw = ""

	claimsInGap     flaw = "claims an absent key without looking again after others had a turn"
	takesOverInGap  flaw = "takes over an orphan without looking again after others had a turn"
	renewsInGap     flaw = "renews without looking again after others had a turn"
	completesInGap  flaw = "completes without looking again after others had a turn"
	releasesInGap   flaw = "releases without looking again after others had a turn"
	clearsInGap     flaw = "clears without looking again after others had a turn"
	blocksOwner     flaw = "tells an owner that its own claim is in flight"
	keepsDeadline   flaw = "leaves the deadline when an owner acquires again"
	keepsGrace      flaw = "leaves the grace when an owner acquires again or renews"
	hidesTakeovers  flaw = "tells one who takes over that the key was nobody's"
	forgetsMark     flaw = "forgets that a claim is a takeover when its owner acquires again"
	renewLosesMark  flaw = "forgets that a claim is a takeover when it is renewed"
	hidesOrphan     flaw = "takes over without telling from whom"
	renewsAnyones   flaw = "renews any owner's claim"
	renewsLiveOnly  flaw = "does not renew past the deadline"
	addsLease       flaw = "renews from the old deadline on"
	releasesAnyones flaw = "releases any owner's claim"
	releasesDone    flaw = "undoes DONE for a late release of its owner"
	abandonsAnyones flaw = "abandons any owner's claim"
	abandonDeletes  flaw = "forgets what was abandoned"

	abandonKeepsOwner   flaw = "leaves an abandoned claim to its owner"
	completesOwnOnly    flaw = "does not record the work of one whose claim was lost"
	completesClaimsOnly flaw = "does not record work without a claim"
	completesAgain      flaw = "completes what is DONE once more"
	hidesLateness       flaw = "does not tell one who completes that its claim was lost"
	keepsClaimant       flaw = "records DONE as the work of who held the claim"
	forgetsLive         flaw = "forgets a claim in flight"

	foldsCase    flaw = "compares keys without regard to case"
	trimsBlanks  flaw = "compares keys without trailing blanks"
	cutsKeys     flaw = "compares the first 255 bytes of keys"
	cutsAtNUL    flaw = "compares keys up to a NUL byte"
	repairsUTF8  flaw = "replaces what is not UTF-8 in keys"
	joinsParts   flaw = "joins the parts of keys with a colon"
	ignoresGroup flaw = "lets consumer groups share keys"
	spoilsParts  flaw = "keeps parts that are not UTF-8 altered"

	cutsFingerprints flaw = "keeps fingerprints of 63 bits"
	cutsAttempts     flaw = "keeps attempts of 8 bits"
	trimsIDs         flaw = "keeps message IDs without trailing blanks"

	trustsReaders   flaw = "judges an orphan by its reader's grace"
	trustsClients   flaw = "judges deadlines by the client's clock"
	keepsOrphans    flaw = "keeps orphans past their grace" // which is allowed
	roundsToSeconds flaw = "cuts deadlines to whole seconds"
	cutsTimes       flaw = "cuts times to 32 bits"
	countsGrace     flaw = "counts the grace to the time left"
	hidesLeft       flaw = "does not tell the time left"

	sortsRequests   flaw = "sorts the caller's requests"
	answersSorted   flaw = "answers in the order of the keys"
	refusesAll      flaw = "fails a call for one bad request"
	acceptsAnything flaw = "accepts requests that make no sense"
	collapsesKeys   flaw = "answers a key's second request as its first"
	sharesRecords   flaw = "hands out its own records"
	ignoresContexts flaw = "does not look at contexts"
	hidesCancel     flaw = "answers nothing, without an error, when the context has ended"
	outlivesClose   flaw = "goes on after it was closed"

	sweepsEarly     flaw = "lists claims as expired that are not"
	sweepsOrphans   flaw = "lists orphans that were not asked for"
	sweepsUnordered flaw = "lists expired claims in another order"
	sweepsUnbounded flaw = "sweeps beyond the limit"
	clearsAnyones   flaw = "clears a claim that is not the one that was read"
	clearsRenewed   flaw = "clears a claim that was renewed since it was read"
	clearsLive      flaw = "clears a live claim"
	countsAll       flaw = "counts as cleared what was gone"
	purgesEarly     flaw = "purges DONE before its time"
	purgesClaims    flaw = "purges claims"

	listsPrefixes flaw = "lists groups whose names begin alike"
	listsPatterns flaw = "takes a group's name for a pattern"
	listsAnyCase  flaw = "lists groups without regard to case"
	listsSome     flaw = "lists the first thousand records"
	cutsListing   flaw = "ends a listing without an error when the context has ended"
)

// caughtBy are the checks that must fail for each flaw: the ones made for it, not all that do.
var caughtBy = map[flaw][]string{
	claimsInGap:         {"racing claimants", "linearizability"},
	takesOverInGap:      {"racing claimants", "linearizability"},
	renewsInGap:         {"linearizability"},
	completesInGap:      {"linearizability"},
	releasesInGap:       {"linearizability"},
	clearsInGap:         {"linearizability"},
	blocksOwner:         {"acquire", "lost replies", "linearizability"},
	keepsDeadline:       {"acquire", "lost replies", "one key twice a call"},
	keepsGrace:          {"acquire", "renew", "different graces"},
	hidesTakeovers:      {"acquire", "late owners", "linearizability"},
	forgetsMark:         {"acquire", "lost replies", "linearizability"},
	renewLosesMark:      {"renew", "lost replies", "linearizability"},
	hidesOrphan:         {"acquire"},
	renewsAnyones:       {"renew", "late owners", "one key twice a call", "linearizability"},
	renewsLiveOnly:      {"renew", "lost replies", "linearizability"},
	addsLease:           {"renew", "one key twice a call"},
	releasesAnyones:     {"release", "late owners", "many keys a call", "linearizability"},
	releasesDone:        {"release", "done stays done", "linearizability"},
	abandonsAnyones:     {"abandon", "late owners", "given-up acquires", "linearizability"},
	abandonDeletes:      {"abandon", "given-up acquires", "linearizability"},
	abandonKeepsOwner:   {"abandon", "given-up acquires", "linearizability"},
	completesOwnOnly:    {"complete", "late owners", "linearizability"},
	completesClaimsOnly: {"complete", "linearizability"},
	completesAgain:      {"complete", "done stays done", "linearizability"},
	hidesLateness:       {"complete", "late owners", "linearizability"},
	keepsClaimant:       {"complete", "late owners", "linearizability"},
	forgetsLive:         {"forget", "linearizability"},

	foldsCase:    {"keys that look alike"},
	trimsBlanks:  {"keys that look alike"},
	cutsKeys:     {"keys that look alike"},
	cutsAtNUL:    {"keys that look alike"},
	repairsUTF8:  {"keys that look alike"},
	joinsParts:   {"keys that look alike"},
	ignoresGroup: {"keys that look alike", "listing"},
	spoilsParts:  {"keys that look alike"},

	cutsFingerprints: {"what records keep"},
	cutsAttempts:     {"what records keep"},
	trimsIDs:         {"what records keep"},

	trustsReaders:   {"different graces"},
	trustsClients:   {"another clock"},
	roundsToSeconds: {"real time"},
	cutsTimes:       {"long times"},
	countsGrace:     {"lookup", "different graces", "around the deadline"},
	hidesLeft:       {"lookup"},

	sortsRequests:   {"many keys a call"},
	answersSorted:   {"many keys a call"},
	refusesAll:      {"bad requests"},
	acceptsAnything: {"bad requests"},
	collapsesKeys:   {"one key twice a call"},
	sharesRecords:   {"aliases"},
	ignoresContexts: {"ended contexts", "sweeping with an ended context", "listing many"},
	hidesCancel:     {"ended contexts"},
	outlivesClose:   {"closing"},

	sweepsEarly:     {"expired claims"},
	sweepsOrphans:   {"expired claims"},
	sweepsUnordered: {"expired claims"},
	sweepsUnbounded: {"expired claims", "purging"},
	clearsAnyones:   {"clearing"},
	clearsRenewed:   {"clearing"},
	clearsLive:      {"clearing"},
	countsAll:       {"clearing", "several janitors"},
	purgesEarly:     {"purging"},
	purgesClaims:    {"purging"},

	listsPrefixes: {"listing"},
	listsPatterns: {"listing"},
	listsAnyCase:  {"listing"},
	listsSome:     {"listing many"},
	cutsListing:   {"listing many"},
}

func flawedConfig(f flaw) Config {
	return Config{NewTable: newFlawedTable(f), KeepsParts: true, ServerClock: true, ExactBatches: true}
}

// TestRightStorePasses runs the suite on the store without a flaw.
func TestRightStorePasses(t *testing.T) { Run(t, flawedConfig(flawless)) }

// TestChoicesPass makes the other choice where the contract leaves one.
func TestChoicesPass(t *testing.T) {
	for _, c := range checks {
		if slices.Contains([]string{"lookup", "past the grace", "given-up acquires", "different graces", "linearizability"}, c.name) {
			t.Run(c.name, func(t *testing.T) { c.run(newFixture(t, flawedConfig(keepsOrphans))) })
		}
	}
}

// TestFlawsAreCaught sees each flaw fail the checks that are there for it. With RMQDEDUP_MATRIX=1 it tries every check
// on every flaw, and logs which failed.
func TestFlawsAreCaught(t *testing.T) {
	matrix := os.Getenv("RMQDEDUP_MATRIX") != ""
	for f, expected := range caughtBy {
		t.Run(string(f), func(t *testing.T) {
			for _, name := range expected {
				if !slices.ContainsFunc(checks, func(c check) bool { return c.name == name }) {
					t.Errorf("there is no check %q", name)
				}
			}
			var failed []string
			for _, c := range checks {
				if !matrix && !slices.Contains(expected, c.name) {
					continue
				}
				failures := watch(t, c, flawedConfig(f))
				if len(failures) > 0 {
					failed = append(failed, c.name)
					t.Logf("%s: %.300s", c.name, failures[0])
				} else if slices.Contains(expected, c.name) {
					t.Errorf("%q passes a store that %s", c.name, f)
				}
			}
			if matrix {
				t.Logf("MATRIX %s: %s", f, strings.Join(failed, ", "))
			}
		})
	}
}

// watch runs a check and returns its failures, which are not t's.
func watch(t *testing.T, c check, config Config) []string {
	t.Helper()
	w := &watcher{TB: t, root: t}
	w.run(func() { c.run(newFixture(w, config)) })
	return w.failures
}

// A watcher is a testing.TB that keeps failures to itself.
type watcher struct {
	testing.TB
	root     *testing.T
	mu       sync.Mutex
	failures []string
}

// run calls f on a goroutine that FailNow and SkipNow can end.
func (w *watcher) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (w *watcher) fail(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, s)
}

func (w *watcher) Errorf(format string, args ...any) { w.fail(fmt.Sprintf(format, args...)) }
func (w *watcher) Error(args ...any)                 { w.fail(fmt.Sprint(args...)) }
func (w *watcher) Fatalf(format string, args ...any) { w.Errorf(format, args...); runtime.Goexit() }
func (w *watcher) Fatal(args ...any)                 { w.Error(args...); runtime.Goexit() }
func (w *watcher) Fail()                             { w.fail("Fail") }
func (w *watcher) FailNow()                          { w.fail("FailNow"); runtime.Goexit() }
func (w *watcher) SkipNow()                          { runtime.Goexit() }
func (w *watcher) Skip(...any)                       { runtime.Goexit() }
func (w *watcher) Skipf(string, ...any)              { runtime.Goexit() }
func (w *watcher) Log(...any)                        {}
func (w *watcher) Logf(string, ...any)               {}
func (w *watcher) Helper()                           {}

func (w *watcher) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.failures) > 0
}

// bubble is what a check uses in place of synctest.Test, which wants a *testing.T.
func (w *watcher) bubble(f func(t testing.TB)) {
	synctest.Test(w.root, func(t *testing.T) {
		in := &watcher{TB: t, root: t}
		in.run(func() { f(in) })
		w.failures = append(w.failures, in.failures...)
	})
}
