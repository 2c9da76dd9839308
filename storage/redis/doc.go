// Package redis is a [rmqdedup.Store] in Redis 6.2 or later: one server, Redis Sentinel, or Redis Cluster.
//
// [Open] makes one from a URL, [New] from a go-redis client that the program has already. The store needs no janitor: Redis itself
// removes what is past its time.
//
//	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
//	store, err := redis.New(client, redis.Config{})
//
// # URLs
//
//	redis://user:password@host:6379/0?prefix=orders
//	redis+cluster://user:password@host1:6379,host2:6379
//	redis+sentinel://host1:26379,host2:26379/0?master_name=mymaster&password=…
//
// and the same with rediss for TLS. Three options are this package's: prefix ([Config].Prefix), timeout ([Config].Timeout; a
// duration such as 500ms, or a number of seconds) and coalesce (false for [Config].Uncoalesced). All others are go-redis's own, as its ParseURL, ParseClusterURL and ParseFailoverURL
// describe them: pool_size, max_retries, dial_timeout, read_timeout, protocol, skip_verify and so on. A Cluster's and the Sentinels'
// further addresses stand behind the first host, with commas, or in options addr=host:port. Behind Sentinel, user and password before the
// host are those of the Sentinels, and the options username and password those of the data servers.
//
// # Guarantee
//
// Each request acts as one atomic step on the server, by a script or a command of its own, so that of any number of
// concurrent claimants exactly one is told that the key is theirs. All requests of a call travel in one pipeline, in a Cluster one to
// each node; a call that finds claims of others takes a second round trip. All time is the server's: deadlines are expiries that it
// keeps and judges, and no clock of a client is used for anything.
//
// Calls that handlers make at the same time share pipelines, two of them under way at a time, or more over a long round trip, which is measured by a PING
// now and then. None waits for company, so that with one handler nothing is different; in a Cluster each node has pipelines of its own. What one caller gives up, or is refused, is no
// other's concern.
//
// That holds for as long as the server keeps what it was told:
//
//   - Failover. Redis replicates after it has answered. A replica that is promoted may lack the last claims and the last DONE, of about as long a time as
//     it lagged behind, so that a message of those moments can run twice. min-replicas-to-write narrows that gap, and WAIT, which this
//     store does not send, would too, but neither closes it: what WAIT gave up on is written on the master all the same, a replica
//     that has acknowledged need not be the one that is promoted, and a master that is cut off goes on answering
//     those who still reach it until it notices. The same goes for a server that restarts without appendfsync always.
//   - Eviction. A maxmemory-policy other than noeviction lets Redis drop claims and DONE when its memory is full, and every key here has an
//     expiry, so the volatile policies drop them too. [Open] and [New] warn about it; see [Store.Check].
//   - Somebody else's DEL, FLUSHALL or RENAME.
//
// At its memory limit (maxmemory, noeviction) Redis refuses new claims and DONE with [rmqdedup.ErrFull], and nothing has changed then; what is
// in flight or done is still told, and renewals, releases, abandons and an operator's forget go on.
//
// A node of a Cluster that is down, a key that somebody else has written, and a refusal of the server fail for their own keys alone
// ([rmqdedup.Answer].Err).
//
// # Clocks
//
// Each key is judged by one clock, that of the server that is master for it at the time. The masters of a Cluster need not agree
// with each other, nor with any client. What matters is a change of clock under a key: at failover, since replicas keep the
// expiry as the old master's time of day, and when the clock of a server is set.
//
// If the new clock is a minute ahead, every claim looks a minute older at that moment: one that had less than a minute left, which with the
// default lease of a minute is every one, can be taken over by the next delivery while its owner still runs. An owner whose claim nobody took meanwhile
// gets it back with its next renewal, after a third of the lease at most, if the claim has a grace; without a grace the key is gone, and the renewal
// is told that the claim is lost. DONE ends a minute early, of days. If the clock is a minute behind, a dead
// owner's claims end a minute late. A difference of less than what a claim has left when it is renewed does no harm: that is two thirds of the
// lease, less the time for which replication lags. NTP keeps servers within some milliseconds.
//
// # Time limits
//
// Every call ends within [Config].Timeout, and at once when its context ends, whatever the client's options. go-redis itself
// ignores a context while it waits for an answer, unless ContextTimeoutEnabled is set ([Open] sets it) and the context has a deadline. So where the client
// would not come back, the call is made in a goroutine of its own and left behind; the client's own time-outs end it. At most 1,024 calls
// of such a client are under way at a time. With ContextTimeoutEnabled, and contexts that cannot be cancelled, such
// as the wrapper's own, no goroutine is needed.
//
// go-redis sends a command again when the connection breaks before its answer. What the second answer says is as good: an Acquire
// recognises its owner, an Abandon its own doing, a Renew renews again. Only a Complete may say [rmqdedup.Done] for Applied then,
// and a Release [rmqdedup.Lost].
//
// # Layout
//
// One string a key:
//
//	name                                            value
//	rmqdedup:order-group:Yo7qeb1toA9UcD6uZ3dJ1…     1C……………
//	│        │           └ digest of the key,       │└ what it is: C a claim, T a claim taken over, D done
//	│        │             base64url, 43 characters └ format
//	│        └ group; what is no letter, digit or one of . _ - % | as = and two hexadecimal digits
//	└ prefix
//
// The value, byte by byte:
//
//	 0   1  format, the character 1
//	 1   1  C, T or D
//	 2  16  owner
//	18   6  milliseconds: a claim's grace; of what is done, when it became so (since 1970, by the server's clock)
//	24   8  fingerprint of the body
//	32   1  kind of the key: 1 a business key, 2 a message ID
//	33   …  attempt, as a varint; then message ID, topic, tag and the key's value, each after its length as a varint
//
// A claim's key lives for lease and grace together. It is in flight while more than the grace is left (PTTL > grace), and an
// orphan afterwards: a deadline that is now has passed. Without a grace it is gone at its deadline. What is done lives for its retention.
// Times are whole milliseconds; others are rounded up.
//
// To see a group's records: redis-cli --scan --pattern 'rmqdedup:order-group:*'. [Store.List] does the same. Either way only the group's names are
// sent, but the server looks at all the names that it has.
//
// # Memory
//
// A DONE key of the name above, with a message ID of 32 characters and 20 of topic, tag and value together, takes 232 bytes by
//
//	redis-cli memory usage rmqdedup:order-group:Yo7qeb1toA9UcD6uZ3dJ1B8BqwbyRkYxegslBrD0_Lc
//
// and 294 with its share of the tables of names and expiries (200,000 of them, Redis 7.0, used_memory before and after). A million messages
// a day kept for four days are 1.2 GB. Parts and value of a key are kept up to 1 KiB together.
//
// # Rights
//
// A user of the server needs no more than
//
//	~rmqdedup:* -@all +evalsha +eval +get +set +setrange +pexpire +pttl +del +time +scan +ping +info +hello
//
// and in a Cluster +cluster|slots too. Without INFO the eviction policy cannot be seen, and is not warned about.
//
// # Two versions at once
//
// During a deployment two releases of this library serve one group. Both may as long as both write format 1: what a release adds
// stands at the end of the value, is ignored by an older one, and survives its renewals and abandons.
//
// A release that meets a format it does not know answers with an error for that key, whatever is asked, and never takes it for absent: under the
// closed policy its message is retried until a process that knows the format gets it, so that nothing runs twice and nothing is lost.
// A new format is therefore brought in by two releases. The first reads both and writes the old one; only when every process has it may the
// second, which writes the new one, be deployed. The changelog says so when it happens. Going back is the same way in reverse.
//
// The name of a key has no version: a new digest of keys would be another prefix.
package redis
