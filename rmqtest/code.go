package rmqtest

import "fmt"

// Code says what a request asks for. Those named here are worked on, any other is answered with NotSupported.
type Code int

const (
	Send           Code = 10  // one message
	Pull           Code = 11  // the next messages of a queue
	QueryOffset    Code = 14  // where a group stands in a queue
	CommitOffset   Code = 15  // a group's progress in a queue; also carried by Pull
	CreateTopic    Code = 17  // from the admin
	OffsetByTime   Code = 29  // a queue's first offset stored at or after a time
	MaxOffset      Code = 30  // a queue's next offset
	MinOffset      Code = 31  // a queue's first offset
	HeartBeat      Code = 34  // a client's groups and subscriptions
	SendBack       Code = 36  // a message that its handler failed
	ListMembers    Code = 38  // the clients of a group, asked at each balance
	MembersChanged Code = 40  // from broker to client: balance now
	Lock           Code = 41  // an ordered consumer's queues
	Unlock         Code = 42  // the same, at its shutdown
	Route          Code = 105 // a topic's queues and their broker
	ListGroups     Code = 201 // from the admin
	ListTopics     Code = 206 // from the admin
	DeleteTopic    Code = 215 // from the admin, to the broker
	DropRoute      Code = 216 // from the admin, to the name server
	Consume        Code = 309 // from broker to client: hand this message to your handler
	SendBatch      Code = 320 // several messages in one body
)

var codeNames = map[Code]string{
	Send: "Send", Pull: "Pull", QueryOffset: "QueryOffset", CommitOffset: "CommitOffset", CreateTopic: "CreateTopic",
	OffsetByTime: "OffsetByTime", MaxOffset: "MaxOffset", MinOffset: "MinOffset", HeartBeat: "HeartBeat",
	SendBack: "SendBack", ListMembers: "ListMembers", MembersChanged: "MembersChanged", Lock: "Lock", Unlock: "Unlock",
	Route: "Route", ListGroups: "ListGroups", ListTopics: "ListTopics", DeleteTopic: "DeleteTopic",
	DropRoute: "DropRoute", Consume: "Consume", SendBatch: "SendBatch",
}

func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("Code(%d)", int(c))
}

// Status is the outcome that an answer carries.
type Status int

const (
	OK               Status = 0  // done; for a pull, with messages
	SystemError      Status = 1  // a producer tries again at once
	NotSupported     Status = 3  // no such request is known
	FlushDiskTimeout Status = 10 // a send: stored, but perhaps not on disk; no error to the producer
	IllegalMessage   Status = 13 // too large
	Unavailable      Status = 14 // a pull: the consumer comes back after 3 s
	TopicUnknown     Status = 17 // a producer tries again at once
	PullNothing      Status = 19 // nothing came in time
	PullNoMatch      Status = 20 // what came does not match the subscription
	PullOutOfRange   Status = 21 // no such offset
	OffsetUnknown    Status = 22 // the group has none; its ConsumeFromWhere decides
	InvalidParameter Status = 29 // no such queue, or no name for a topic
)
