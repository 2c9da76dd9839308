// Package coalesce lets calls of a store that are made at the same time share a round trip.
//
// A message is worked on by a handler of its own, and each handler claims and completes its own message, so that a store is called
// for one key at a time by as many goroutines as there are handlers. What such a call costs is mostly the round trip and the
// statement around the key, not the key. A [Coalescer] therefore allows only so many calls to be under way as keep the server busy, its
// window. Calls that come while it is full wait, and when one under way ends, those waiting for the same operation go out together as one,
// up to 64 keys.
//
// No call ever waits for company. While the window is not full, a call is made at once, by the goroutine that makes it and with its own
// context, so that with one handler nothing is different. When there is room again, whatever is waiting goes.
//
// Handlers often come in bursts: one timer, or the answers of one round trip, has woken them all. The first of a burst would go alone, and the others
// wait for it. Where a call costs as much as a commit, it is therefore the other way round ([Config.Gather]): the call that fills the window lets the goroutines
// run that are ready to, and takes along what they ask for. Where none is ready that is no time at all.
//
// # The window
//
// One call under way is the fastest on a server that is near: a second one would find half of its company gone. Over a long round
// trip one would leave the server idle most of the time. So the window grows with the round trip, which is measured by pings of the server: see
// [Window]. A call that has waited for [patience] widens it for once, however many are under way: some of them may wait themselves, for a row
// that somebody has locked, or for a node that is silent, and nothing is to wait for these.
//
// # What callers see
//
// The same as without it. The operations of one call keep their order; of two calls with a key in common each is in a round trip of its own. A
// caller whose context ends while it waits leaves the others alone: its requests are not sent at all, if they have not been yet. A
// call that went out with others has a context of nobody's, which the store's time limit ends; each caller waits no longer than that limit
// altogether. What fails for all of a call's requests fails for all callers in it; what concerns one request, that request alone.
package coalesce
