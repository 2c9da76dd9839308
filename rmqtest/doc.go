// Package rmqtest is a RocketMQ name server and broker inside the test's own process.
//
// It speaks the remoting protocol over loopback to the unmodified github.com/apache/rocketmq-client-go/v2, keeps
// everything in memory, starts in less than a millisecond, and fails on demand. A test of a listener needs nothing else:
//
//	b, err := rmqtest.Start(rmqtest.Config{DelayLevels: rmqtest.DelayLevels(time.Millisecond)})
//	…
//	defer b.Close()
//	b.CreateTopic("orders", 4)
//	c, err := rocketmq.NewPushConsumer(
//		consumer.WithNameServer(primitive.NamesrvAddr{b.Addr()}),
//		consumer.WithInstance(b.InstanceName()),
//		consumer.WithGroupName("shop"))
//
// Every consumer and every producer needs an instance name of its own, since the client keeps one identity, one set of
// connections and one name server for all that share a name in a process: consumer.WithInstance and
// producer.WithInstanceName, with [Broker.InstanceName]. Any number of brokers may run at once.
//
// # What it does
//
//   - Topics of any number of queues, made by [Broker.CreateTopic], by the client's admin or by the first send.
//   - Single sends, batches, one-way sends, compressed bodies, delay levels.
//   - Push consumers, concurrent, ordered and broadcasting, several in a group, with balances, offsets, queue locks, tag
//     subscriptions and long polling.
//   - Failed messages come back through the group's retry topic and end in its dead-letter topic ([RetryTopic],
//     [DeadLetterTopic]), with the delays, counts and properties that the real broker gives them.
//
// Each of these was compared with RocketMQ 5.5.0. Where they differ, the real one is right.
//
// # Time, and other matters of the client's
//
// A test should wait for what happens, not for a time to pass: the WaitFor methods and [Broker.Wait] return as soon as
// what they wait for is true. Delays are a matter of [Config].DelayLevels, and [Broker.ReleaseDelayed] ends them at
// once. The rest belongs to the client:
//
//   - A consumer commits its progress with its next pull, or every 5 s; see [Config].LongPoll.
//   - An ordered consumer gets its first message 3 s after its start. A queue that moves to another member of an ordered
//     group stands still until the old owner's lock has ended and the group balances again; see [Config].LockLife and
//     [Broker.Rebalance].
//   - A consumer whose connection ends comes back after 3 s if its pulls were answered before ([Broker.Disconnect],
//     [Broker.Restart]), and after 33 s if not.
//   - A producer sends again after 3 s without an answer (producer.WithSendMsgTimeout).
//   - A broadcasting consumer's progress is in $HOME/.rocketmq_client_go/<group>, not here, and outlives the test.
//   - Goroutines of the client stay for a while after Shutdown; [ClientGoroutines] names them.
//
// End a consumer with [Broker.ShutDown] if go test -race is to stay silent about the client. Ordered consumption cannot
// be run under the race detector: the client reads a queue's cache without its lock.
//
// # Faults
//
// [Broker.Hook] shows every request to a function that decides by an [Action] what becomes of it: delayed, not worked
// on, not answered, answered with something else, or cut off. [Broker.Fault] does so for the next few requests of some
// kind. Ready-made are
//
//   - a reply lost after the work was done, so that the producer sends again: [Broker.LoseReplies]
//   - a message stored twice, and so delivered twice: [Broker.DoubleSends], [Broker.Duplicate]
//   - progress lost: [Broker.LoseCommits], [Broker.SetOffset], and all delivered again: [Broker.Replay]
//   - a send-back refused: [Broker.RefuseSendBacks]
//   - a connection cut: [Broker.CutAfter], [Broker.Disconnect]
//   - a restart that keeps or loses what was not acknowledged: [Broker.Restart], after [Broker.LoseReplies] or
//     [Broker.LoseRequests] for what producers sent
//   - a balance while handlers run: [Broker.Rebalance], [Broker.TakeQueues], [Broker.AddPhantom]
//   - a queue consumed by two members at once: [Broker.Split]
//   - slow answers: [Broker.SlowAnswers]
//   - an operator's "consume directly": [Broker.ConsumeDirectly]
//
// # What it does not imitate
//
//   - Transactions, request and reply, delivery at a set time, SQL92 subscriptions, access control, TLS, slaves, several
//     brokers under one name server, and clients of other languages.
//   - A group's retry topic is there from the beginning. A real broker makes it at the group's first heart beat, and the
//     group's first retry then comes about 40 s late.
//   - A new group begins at the first message whatever its ConsumeFromWhere, as a real broker has it while a queue is
//     young.
//   - A pull of a client that is not known as a member is served, and the client is asked to balance, where a real
//     broker refuses it until the next heart beat.
//   - Members are told twice of a change in their group, a real broker tells them once. It costs them a second, idle
//     balance, and lets [Broker.WaitForBalance] see the end of the first.
//   - Nothing is ever deleted, flushed or paged out: a test's broker, not a server.
package rmqtest
