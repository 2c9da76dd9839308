// Package e2e has no code of its own: its tests run the library with the unmodified rocketmq-client-go against a RocketMQ broker and a store.
//
// Each test is one story, told in the order in which things happen: members join a consumer group, messages are sent, and the story waits for
// what must come of them. The harness checks at the end what holds for every story: each piece of work succeeded exactly once and never
// twice at a time, every message found an answer, nothing was dead-lettered, and the library told of nothing that is no part of the story.
//
// Stories are played on a real broker and on the one in package rmqtest, faults and all: what the latter does at a story's bidding befalls the former's
// clients on their way to it (see road). Those in which it restarts have a real one of their own, one at a time. What takes one of the two too long it says
// itself (see broker.lacks). The state is
// kept in Redis; stories whose point is what becomes of a claim are played on MySQL and MariaDB as well (see setting.claims), and those of
// the janitor on these alone.
//
//	eval "$(make -s env)"                     # where the servers are; make up starts them
//	go test -race ./internal/e2e/...                      # all stories but those in which the client itself races,
//	go test -run 'Ordered|Unraced' ./internal/e2e/...     # which are those of ordered consumers, and few others
//	RMQDEDUP_LONG=1 go test …                             # also what takes minutes, and every story that needs a server on each of them
//	RMQDEDUP_CLIENT_LOG=info go test …                    # with what the client logs
//
// The story of two nodes needs a cluster, which make up-galera starts. Without servers the stories that need none are played, on rmqtest and in memory.
//
// The tests named TestClient… and TestOrderedClient… pin what the client does behind a listener's back and this library relies on or mends: one of
// them fails when a new version of the client changes it.
package e2e
