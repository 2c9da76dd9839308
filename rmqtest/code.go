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
	MaxOffset      Code = 30  // a queue's next offset
	HeartBeat      Code = 34  // a client's groups and subscriptions
	SendBack       Code = 36  // a message that its handler failed
	ListMembers    Code = 38  // the clients of a group, asked at each balance
	MembersChanged Code = 40  // from broker to client: balance now
	Lock           Code = 41  // an ordered consumer's queues
	Unlock         Code = 42  // the same, at its shutdown
	Route          Code = 105 // a topic's queues and their broker
	ListTopics     Code = 206 // from the admin
	DeleteTopic    Code = 215 // from the admin
	Consume        Code = 309 // from broker to client: hand this message to your handler
	SendBatch      Code = 320 // several messages in one body
)

// A kind is what the broker knows of a code.
type kind struct {
	name    string
	work    func(*Broker, *conn, *Request) answer // runs with b.mu held; nil for what only the broker asks
	texts   string                                // header fields that must not be empty
	numbers string                                // header fields that must be numbers
}

var kinds = map[Code]kind{
	Send:           {"Send", (*Broker).send, "topic", "queueId flag sysFlag reconsumeTimes bornTimestamp maxReconsumeTimes"},
	SendBatch:      {"SendBatch", (*Broker).sendBatch, "topic", "queueId bornTimestamp"},
	SendBack:       {"SendBack", (*Broker).sendBack, "group", "offset delayLevel maxReconsumeTimes"},
	Pull:           {"Pull", (*Broker).pull, "consumerGroup topic", "queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis"},
	QueryOffset:    {"QueryOffset", (*Broker).queryOffset, "consumerGroup topic", "queueId"},
	CommitOffset:   {"CommitOffset", (*Broker).commitOffset, "consumerGroup topic", "queueId commitOffset"},
	MaxOffset:      {"MaxOffset", (*Broker).maxOffset, "topic", "queueId"},
	HeartBeat:      {"HeartBeat", (*Broker).heartBeat, "", ""},
	ListMembers:    {"ListMembers", (*Broker).listMembers, "", ""},
	Lock:           {"Lock", (*Broker).lock, "", ""},
	Unlock:         {"Unlock", (*Broker).lock, "", ""},
	Route:          {"Route", (*Broker).route, "", ""},
	CreateTopic:    {"CreateTopic", (*Broker).createTopic, "topic", "readQueueNums"},
	DeleteTopic:    {"DeleteTopic", (*Broker).deleteTopic, "", ""},
	ListTopics:     {"ListTopics", (*Broker).listTopics, "", ""},
	MembersChanged: {name: "MembersChanged"},
	Consume:        {name: "Consume"},
}

func (c Code) String() string {
	if k, ok := kinds[c]; ok {
		return k.name
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
