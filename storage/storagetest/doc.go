// Package storagetest holds the rules that every [rmqdedup.Store] must keep, as tests that run against it: those of
// this module, decorators around them, and stores that users write themselves.
//
// # Using it
//
// A store's package has a harness, which is a [Table] over the real server, and two functions:
//
//	func TestStore(t *testing.T) {
//		storagetest.Run(t, storagetest.Config{NewTable: newTable})
//	}
//
//	func BenchmarkStore(b *testing.B) {
//		storagetest.Bench(b, storagetest.Config{NewTable: newTable})
//	}
//
// What a store can do beyond [rmqdedup.Store] is found out by asking it, with [rmqdedup.Find], or declared in [Config];
// the suite never knows which store it has before it. What the store lacks is skipped, by name.
//
// # What is tested
//
// Run makes one subtest a rule, each on a table of its own: the answer of every operation in every state, with what it
// leaves behind, one key a call and a thousand; keys that look alike; racing claimants; owners that come late, ask
// again, or gave up; graces, retention and the store's clock; contexts that end and stores that close; sweeping and
// listing. Histories of random concurrent operations are checked for linearizability against a model of the table.
//
// Time is not waited for. Leases are hours long, and [Table.Age] moves a record's deadline; one test alone, of about a
// second, lets a lease run out by itself.
//
// # What is left to the store
//
// A claim past its deadline and its grace may be absent or an orphan still, as long as an answer and what is seen
// afterwards go together. An owner that acquires its own orphan may be told that it took it over, or not. A claim
// without grace may be removed when it is abandoned. What a record has in an answer for which no record is promised,
// when a deadline is rounded up, and how often a listing shows one record, are not looked at.
//
// # Replaying a random test
//
// Random tests log their seed. RMQDEDUP_SEED=n in the environment makes them use n: the same operations in the same
// order for each client, though the interleaving remains the scheduler's. A history that is not linearizable is
// printed, and drawn into history.html in the test's artifact directory (go test -artifacts).
package storagetest
