// Package mysql is a [rmqdedup.Store] in one table of MySQL or MariaDB.
//
// [Open] makes one from a URL or a DSN, [New] from a *gorm.DB that the program has already. What is past its time stays in the table
// until a janitor clears it; run package janitor somewhere.
//
//	store, err := mysql.Open(ctx, "mysql://user:password@host:3306/orders?migrate=true")
//
// # URLs
//
//	mysql://user:password@host:3306/database?table=orders_state
//	user:password@tcp(host:3306)/database?table=orders_state
//
// The second form is a DSN of github.com/go-sql-driver/mysql, for its other networks (unix, and registered ones). Five options are this package's:
//
//	table         [Config].Table
//	call_timeout  [Config].Timeout, a duration such as 5s
//	migrate       [Config].Migrate
//	coalesce      false for [Config].Uncoalesced
//	max_conns     how many connections are opened at most: 32 unless told otherwise
//
// All others are the driver's own: tls, timeout (to connect), readTimeout, rejectReadOnly, collation and so on. What the driver does not know either it sets as a
// variable of each session, such as wsrep_sync_wait. Options that change what statements answer (clientFoundRows, interpolateParams, parseTime, loc, charset, collation, autocommit)
// make no difference to this package, and innodb_lock_wait_timeout is 1 unless the URL sets it. In what stands behind the last slash of a DSN, / and @ are written as %2F and %40.
//
// # Guarantee
//
// Every operation on a key is one atomic statement that takes effect or does not; where it takes a second one, to read what was found or to take over an
// orphan, that one checks that the row is still as it was read. All time is the server's: deadlines are set and judged, in milliseconds since 1970 in UTC,
// by the clock of the server in the statement itself, so that the clocks, time zones and daylight savings of clients do not matter. No verdict rests on a number of affected rows that a flag of
// the connection changes: a claim is answered by the insert id, or by reading the row.
//
// A call of several keys is one statement a step for up to 64 of them, in the order of their digests, so that calls with keys in common do not
// deadlock. A statement that the server gives up for the sake of another all the same (1213), which on a Galera cluster is ordinary, is tried
// again up to twenty times, with random pauses.
//
// The claims and completions that handlers make at the same time go out together as one such statement. On a server that is near one is under way at a time,
// which is the fastest, and over a longer round trip, which is measured by a ping now and then, as many as keep it busy. None waits for company, so that with one handler nothing
// is different, and none waits longer than 20 ms for those under way, since a row may be locked. A statement that fails for all its keys, by one that the server refuses or by a
// connection that breaks, is tried again key by key.
//
// When the answer of a call of several keys says that some of them were not as asked (some claims lost, say), the rows are read to see which. Owners being random for each
// claim, what is read is exact, unless an operator's forget, or another owner's completion of a claim that it has lost, comes between: a claim that was made and is DONE by the time it is read is told as DONE.
//
// # Locked rows
//
// A statement waits a second for a row that a transaction of somebody else holds locked, not the server's fifty. An Acquire is then answered [rmqdedup.InFlight] for that
// key, any other operation with [rmqdedup.ErrLocked], and the other keys of the call go on without it: they are found by FOR UPDATE SKIP
// LOCKED, or one by one where the server does not know that.
//
// # What it relies on
//
// MySQL from 8.0.19 on, or MariaDB from 10.6 on; both are tested, MySQL in the newest release and MariaDB in 10.11. Of a server that speaks the protocol
// (TiDB, Vitess, Aurora), it takes:
//
//   - INSERT … ON DUPLICATE KEY UPDATE with LAST_INSERT_ID(expression) in it, the value of which is the insert id of the statement's answer
//   - assignments that see those before them, from left to right
//   - a primary key of BINARY(32), the only unique one, and one further index
//   - UTC_TIMESTAMP(3) that is the same throughout a statement
//   - UPDATE, DELETE and SELECT by FORCE INDEX
//
// Statements of one key are prepared, once a connection, and on MariaDB, which takes as long to read a text of many keys as to do what it says, those of several keys too:
// at most 24 numbers of keys for each of a few statements. Where the server has no room for them (max_prepared_stmt_count) they are sent as text.
//
// There is no AUTO_INCREMENT, no named lock, no trigger, no foreign key, no transaction of several statements, and every statement but the janitor's names its keys, so
// that the table can be sharded by its primary key. The value that was to be inserted is called new.column on MySQL, and VALUES(column), which MySQL warns about, on all others.
//
// A connection pool or proxy that sends reads to a replica must not do so here: a claim is read where it was written.
//
// # What can be lost
//
// What is committed on a server with innodb_flush_log_at_trx_commit=1, its default, survives a crash of the server ([Store.Check] warns about other values). A failover to an
// asynchronous replica may lose the last claims and DONE, so that messages of those moments run twice; semi-synchronous replication (rpl_semi_sync_source_wait_point=AFTER_SYNC)
// and group replication do not lose what was answered. With rejectReadOnly=true the driver drops connections to a primary that was demoted.
//
// # Galera
//
// Any node may be used, also several at once: of claims for one key on several nodes one wins, and the others are tried again and find it. But a node applies
// what others have written a little later, so that an owner which renews on another node than it claimed on may be told that its claim is lost. Let
// each process keep to one node, or add wsrep_sync_wait=15 to the URL, which makes each statement wait for what came before it.
//
// # Rights
//
// SELECT, INSERT, UPDATE and DELETE on the table, and CREATE for [Store.Migrate].
//
// # Two versions at once
//
// During a deployment two releases of this library serve one table. A release may add columns with a default, which an older one leaves alone; anything else is a new format, whose
// number is in the table's comment, and [Store.Check] refuses one that it does not know.
package mysql
