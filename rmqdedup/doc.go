// Package rmqdedup makes the listeners of a RocketMQ push consumer idempotent: each piece of work is done once, though RocketMQ may
// deliver it many times.
//
// RocketMQ delivers at least once. A producer's retry, a broker's retry, a rebalance, or a crash between "work done" and "offset saved"
// all deliver the same piece of work again. This package keeps a small state table beside the business, in Redis or MySQL:
//
//  1. Before the handler runs, the message's dedup key is claimed: CONSUMING, with a random owner and a deadline.
//  2. A duplicate that finds the key claimed is not acknowledged but comes again later: if the first copy fails, it has to run.
//  3. When the handler succeeds, the key becomes DONE, and later duplicates are acknowledged without running.
//  4. When it fails, the key is removed, so that the redelivery runs.
//  5. A claim whose owner died ends at its deadline, and the next delivery takes it over.
//
// No transaction spans the business, so the handler may call what it likes.
//
// # Use
//
//	store, err := storage.Open(ctx, "redis://localhost:6379/0")
//	dedup, err := rmqdedup.New(store, "order-group", rmqdedup.Config{Key: rmqdedup.JSONField("order.id")})
//	c, err := rocketmq.NewPushConsumer(append(dedup.ConsumerOptions(), consumer.WithNameServer(servers))...)
//	err = c.Subscribe("orders", consumer.MessageSelector{}, dedup.Wrap(handle))
//	err = c.Start()
//	…
//	err = dedup.Shutdown(ctx, c)
//	err = store.Close()
//
// handle is the listener as it was before. For a first look at a running system, set [Config.Shadow]: everything is claimed, counted and logged,
// and nothing is suppressed.
//
// # What is guaranteed
//
// As long as the store keeps what it was told, a message whose key is DONE is not handed to the handler again while the retention
// lasts, and two deliveries of one key are not handled at the same time while the first one's claim is healthy: renewed in time, which
// is the case as long as the process runs and reaches the store.
//
// No message is lost: what is acknowledged was either run with success or found DONE. No message is sent to the dead-letter queue that its handler did
// not refuse, but in these cases, each of which is an event of its own:
//
//   - its key is in flight elsewhere, or its store away, for longer than all retries last ([Dedup.Budget] has the figures);
//   - its handler still runs at the consume timeout of the last attempt;
//   - with batches above one, a batch-mate was refused when it was itself at its last attempt, since the client sends back whole batches.
//
// # What can still run twice
//
//   - Work that was done when the process died before DONE could be written. The redelivery cannot know, and runs.
//   - Work whose owner lost its claim, being cut off from the store for a lease or stopped for as long, and did not heed its cancelled context.
//   - Work whose DONE the store lost: a Redis that evicts keys or fails over to a replica that had not heard of it, for instance.
//   - Work that comes again after the retention.
//   - Under the outage policy [Open], anything while the store is away.
//
// # What a handler sees
//
// Its context carries one [Claim] a message ([Claims]), and is cancelled when a claim is lost (the cause is a [LostClaimError] with the keys), or when a shutdown runs
// out of time ([ErrDraining]). Its answer means what it means to the client, with two repairs: in concurrent mode only ConsumeSuccess is success; in ordered mode
// Commit is as well, and everything else suspends the queue, for a second unless the handler set a time, since the client would lose the
// message on ConsumeRetryLater and spin on a suspend time left alone. A panic is a failure.
//
// A delay level that the handler set is kept if it saw every message of the delivery. Otherwise, and for every retry of the
// wrapper's own, the level is the larger of the one that outlasts the claim in the way and the one that the broker would choose.
//
// # Batches
//
// A delivery of several messages claims all of them in one call of the store. In concurrent mode those that are DONE are dropped, those that are claimed go to the handler
// in one call and in order, and if any is in flight the whole batch is then answered retry: the next time, what succeeded is DONE. In ordered mode only what stands
// before the first message in flight runs, since order is what the consumer is there for; then that message is waited for.
//
// # When the store is away
//
// Under [Closed] nothing runs unprotected. A concurrent delivery is held in the listener for up to half the consume timeout while the store is tried
// again, then answered retry; an ordered one is held until the store is back. Under [Open] the handler runs without a claim, which is counted. A
// handler's success is acknowledged even if DONE cannot be written: it is written in the background, and its claim is renewed until then.
//
// # Shutting down
//
// [Dedup.Shutdown] stops the consumer and the wrapper in the order that loses least. Close the store last.
//
// # Observing
//
// An [Observer] hears of every delivery and its result, and of single events; [Log] is the default. A store can be observed with [Intercept].
package rmqdedup
