// Package e2e has no code of its own: its tests run the library with the unmodified rocketmq-client-go against a RocketMQ broker and a store.
//
// Each test is one story, told in the order in which things happen: members join a consumer group, messages are sent, the story waits for
// what must come of it, and the harness checks at the end what holds for every story: each piece of work succeeded exactly once, nothing is left
// unread, nothing was dead-lettered, and nothing was told that the story does not expect.
//
//	eval "$(scripts/servers.sh env)"          # where the servers are; scripts/servers.sh up starts them
//	go test -race ./internal/e2e/...          # all stories but those of ordered consumers
//	go test -run Ordered ./internal/e2e/...   # those: the client itself races in ordered consumption
//	RMQDEDUP_LONG=1 go test …                 # also what takes minutes
//
// The tests named TestClient… and TestOrderedClient… pin what the client does behind a listener's back and this library relies on: one of
// them fails when a new version of the client changes it.
package e2e
