// Package janitor clears from a state table what is past its time: claims whose owners died, and DONE past its retention.
//
// # What it does
//
// A sweep clears the claims that expired longer ago than the grace written with them, then purges what is DONE past its retention, in small
// batches, until it finds nothing more. [Janitor.Run] sweeps at its start and then by a cron schedule; [Janitor.Sweep] sweeps once, for those who have a
// scheduler of their own.
//
//	j, err := janitor.New(store, janitor.Config{Consumers: map[string]rmqdedup.Config{"order-group": cfg}})
//	err = j.Run(ctx) // until ctx ends and the sweep under way has
//
// It needs a store that is an [rmqdedup.Sweeper], as MySQL is. Run it in one of the consumers' processes, in all of them, or in a process of its own.
//
// # What it never does
//
//   - It never removes a claim that was renewed, taken over or finished since it was found, nor one within its grace, nor DONE within its retention: the
//     store judges that anew, by its own clock, in the statement that deletes.
//   - It is never waited for. A consumer takes over an expired claim, and an expired DONE counts as absent, whether the janitor has come by or not: it
//     keeps the table small. A janitor that is down costs disk space and the speed of a table that grows.
//   - It never asks whether a dead owner's work was done after all. A claim that is cleared is as if it had never been.
//
// # Settings
//
// [Config] has them all, with their defaults; the zero Config is ready to use. The schedule is a cron spec, "@every 1m" by default. A random delay before each
// sweep, by default up to a tenth of the interval, keeps a fleet's janitors apart; a deployment starts them all at once. A sweep that is due while
// another goes on is skipped.
//
// A statement that fails is tried again a few times, with a backoff; then the sweep ends with its error, and the next one goes on. A statement has a time limit,
// and after one that did not end in it the batch is halved. A sweep has a time limit as well, which is no error: what it did not get to is the next one's
// ([Report.Unfinished]). Should that happen every time, rows come faster than they go: raise [Config.BatchSize] or shorten [Config.Pause].
//
// # Pace
//
// The janitor feels what claims feel. Before the first batch of a sweep it makes a few claims of its own ("probes": a random key of a group that no consumer can have,
// released at once) to learn what they take on the quiet table, and beside each batch one more. If that one takes more than half as long again, the next batches are
// smaller and the pauses between them longer; if not, the pace quickens slowly, up to [Config.BatchSize] and [Config.Pause]. It is kept from one sweep to
// the next. Where nothing is expired there is no probe: such a sweep is two statements.
//
// # The dead-letter budget
//
// A message whose owner died is delivered again until its retries are used up. The wrapper takes over the claim as soon as it has expired. Something else that
// reads the table, and goes by whether there is a claim, would have to wait for the janitor, and the message would be in the dead-letter queue if that came too
// late. So Run works out both times for each of [Config.Consumers] and logs them, as a warning if the claim stays for longer than the
// retries last. With the defaults, and a claim that expires just after a sweep has looked for claims:
//
//	lease                                             1m0s   after the last renewal
//	+ that sweep goes on, and the next one takes too   2m10s  twice: the sweep's time 1m0s, and its last statement's 5s
//	+ the schedule's longest interval                 1m0s
//	+ jitter                                          6s
//	= the claim is cleared after                      4m16s  at the latest
//
//	16 retries at delay levels 3 to 18                4h45m40s
//	+ the last attempt's wait                         14m0s
//	= the retries outlast                             4h59m40s
//
// With "0 3 * * *" the first sum is 24h3m40s: too late. It is a warning and no error, since the wrapper takes over expired claims by itself.
//
// # Several janitors
//
// Any number of janitors may sweep one table at once. Each row is deleted by one of them and counted by that one; one that finds its rows taken ends its sweep
// early. Two take no shorter than one, so that one for a table is enough, and one in each process is the simplest way never to have none.
//
// # Redis
//
// Redis lets claims and DONE expire by itself. For such a store the janitor says once that there is nothing to clear; Run then waits for its context to end, and Sweep
// returns a report that says so ([Report.Native]): the same program runs on either store.
package janitor
