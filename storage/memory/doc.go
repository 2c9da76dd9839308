// Package memory is a [rmqdedup.Store] in this process's memory, for tests and for demonstrations.
//
// # When not to use it
//
// It is no store for production. Other processes do not share it: two members of a consumer group that each have one
// run every duplicate that reaches the other. A restart forgets it: what was finished runs again when it is delivered
// again. Both are what a state table is there to prevent; use Redis or MySQL.
//
// # What it keeps to
//
// The whole contract of [rmqdedup.Store], checked by the suite in storagetest; many goroutines may use one store, and
// one store may serve several consumer groups. It is a [rmqdedup.Sweeper] and a [rmqdedup.Lister]. One mutex guards it
// all; a call holds it for its whole length, so that a batch is atomic, which is more than the contract asks for.
//
// A claim past its deadline and its grace is absent, at once and for every operation; so is one past its deadline
// without grace, whose next claimant is therefore told "claimed", not "taken over".
//
// # Bounds
//
// It holds [Config.MaxKeys] records at most. Records past their time are dropped as other operations go on, about two
// for each request, with no goroutine of its own. At the bound a new key finds room only if some record's time has
// passed, and fails with [rmqdedup.ErrFull] otherwise: what is still needed is never evicted, since an evicted DONE is
// a duplicate run and an evicted claim is two handlers at once. A record takes about 400 bytes, with a key of ordinary
// length; of keys above 1 KiB the value is not kept.
//
// # Clock
//
// Its clock is this process's monotonic one, so that a step of the wall clock changes nothing. In a testing/synctest
// bubble it is the bubble's; make the store inside the bubble. [Store.Age] lets time pass for one key.
package memory
