package rmqtest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// request makes a frame of a code, fields in pairs and a body.
func request(code rmqtest.Code, body string, fields ...string) rmqtest.Frame {
	f := rmqtest.Frame{Code: int(code), Fields: make(map[string]string), Body: []byte(body)}
	for i := 0; i < len(fields); i += 2 {
		f.Fields[fields[i]] = fields[i+1]
	}
	return f
}

func pullOf(topic string, queue, offset int, more ...string) rmqtest.Frame {
	return request(rmqtest.Pull, "", append([]string{
		"consumerGroup", "g", "topic", topic, "queueId", strconv.Itoa(queue), "queueOffset", strconv.Itoa(offset),
		"maxMsgNums", "32", "sysFlag", "0", "commitOffset", "0", "suspendTimeoutMillis", "0",
	}, more...)...)
}

// What the client shows its user only in part, or after its timers: the statuses as the real broker gives them.
func TestAnswers(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 2)
	send(t, newProducer(t, b), orders, "a", "b", "c", "d") // two a queue
	client := pipe(t, b)
	in := func(code rmqtest.Code, more ...string) rmqtest.Frame {
		return request(code, "", append([]string{"consumerGroup", "g", "topic", orders, "queueId", "0"}, more...)...)
	}
	for _, c := range []struct {
		what   string
		ask    rmqtest.Frame
		status rmqtest.Status
		fields string
	}{
		{"pull", pullOf(orders, 0, 0), rmqtest.OK, "next 2 of 0-2"},
		{"pull one", pullOf(orders, 0, 0, "maxMsgNums", "1"), rmqtest.OK, "next 1 of 0-2"},
		{"pull at the end", pullOf(orders, 0, 2), rmqtest.PullNothing, "next 2 of 0-2"},
		{"pull beyond the end", pullOf(orders, 0, 3), rmqtest.PullOutOfRange, "next 2 of 0-2"},
		{"pull before the beginning", pullOf(orders, 0, -1), rmqtest.PullOutOfRange, "next 0 of 0-2"},
		{"pull no queue", pullOf(orders, 2, 0), rmqtest.InvalidParameter, ""},
		{"pull no topic", pullOf("nowhere", 0, 0), rmqtest.TopicUnknown, ""},
		{"pull and commit", pullOf(orders, 0, 2, "sysFlag", "1", "commitOffset", "2"), rmqtest.PullNothing, "next 2 of 0-2"},
		{"offset committed by pull", in(rmqtest.QueryOffset), rmqtest.OK, "offset 2"},
		{"commit less", in(rmqtest.CommitOffset, "commitOffset", "1"), rmqtest.OK, ""},
		{"offset that went back", in(rmqtest.QueryOffset), rmqtest.OK, "offset 1"},
		{"commit none", in(rmqtest.CommitOffset, "commitOffset", "-1"), rmqtest.OK, ""},
		{"offset of a new group", in(rmqtest.QueryOffset), rmqtest.OK, "offset 0"},
		{"offset of no topic", in(rmqtest.QueryOffset, "topic", "nowhere"), rmqtest.OffsetUnknown, ""},
		{"commit to no topic", in(rmqtest.CommitOffset, "topic", "nowhere", "commitOffset", "1"), rmqtest.TopicUnknown, ""},
		{"max", in(rmqtest.MaxOffset), rmqtest.OK, "offset 2"},
		{"max of no topic", in(rmqtest.MaxOffset, "topic", "nowhere"), rmqtest.OK, "offset 0"},
		{"no known code", in(rmqtest.Code(29)), rmqtest.NotSupported, ""},
		{"members of no group", request(rmqtest.ListMembers, "", "consumerGroup", "g"), rmqtest.SystemError, ""},
		{"route of no topic", request(rmqtest.Route, "", "topic", "nowhere"), rmqtest.TopicUnknown, ""},
		{"send-back of no message", request(rmqtest.SendBack, "", "group", "g", "offset", "1", "delayLevel", "0", "maxReconsumeTimes", "16"), rmqtest.SystemError, ""},
		{"heart beat of nonsense", request(rmqtest.HeartBeat, "nonsense"), rmqtest.SystemError, ""},
		{"missing field", request(rmqtest.QueryOffset, "", "topic", orders), rmqtest.SystemError, ""},
	} {
		res := ask(t, client, c.ask)
		equal(t, c.what, rmqtest.Status(res.Code), c.status)
		equal(t, c.what, shown(res.Fields), c.fields)
	}
}

func shown(fields map[string]string) string {
	switch {
	case fields["nextBeginOffset"] != "":
		return fmt.Sprintf("next %s of %s-%s", fields["nextBeginOffset"], fields["minOffset"], fields["maxOffset"])
	case fields["offset"] != "":
		return "offset " + fields["offset"]
	}
	return ""
}

func TestLocks(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{LockLife: 200 * time.Millisecond})
	client := pipe(t, b)
	of := func(code rmqtest.Code, id string, queues ...string) string {
		var set []string
		for _, q := range queues {
			set = append(set, `{"topic":"t","brokerName":"b","queueId":`+q+`}`)
		}
		res := ask(t, client, request(code, `{"consumerGroup":"g","clientId":"`+id+`","mqSet":[`+strings.Join(set, ",")+`]}`))
		equal(t, "status", res.Code, 0)
		return strings.NewReplacer(`{"topic":"t","brokerName":"b","queueId":`, "", "}", "").Replace(string(res.Body))
	}
	equal(t, "first", of(rmqtest.Lock, "me", "0", "1"), `{"lockOKMQSet":[0,1]`)
	equal(t, "renewed", of(rmqtest.Lock, "me", "0"), `{"lockOKMQSet":[0]`)
	equal(t, "the other's part", of(rmqtest.Lock, "you", "0", "2"), `{"lockOKMQSet":[2]`)
	of(rmqtest.Unlock, "you", "0")
	equal(t, "owner after a stranger's unlock", b.LockOwner("g", "t", 0), "me")
	of(rmqtest.Unlock, "me", "0")
	equal(t, "unlocked", of(rmqtest.Lock, "you", "0"), `{"lockOKMQSet":[0]`)
	equal(t, "nothing left", of(rmqtest.Lock, "me", "0"), `{"lockOKMQSet":[]`)
	must(t, b.Wait(ctx(t), "the lock's end", func() bool {
		return of(rmqtest.Lock, "me", "0") == `{"lockOKMQSet":[0]`
	}))
}

func TestPullHeldUntilArrival(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 1)
	client := pipe(t, b)
	_, err := client.Write(encode(t, pullOf(orders, 0, 0, "sysFlag", "2", "suspendTimeoutMillis", "20000")))
	must(t, err)
	must(t, b.WaitForPulls(ctx(t), "g", orders))
	send(t, newProducer(t, b), orders, "x")
	for {
		res, err := rmqtest.ReadFrame(client)
		must(t, err)
		if res.Flag&1 != 0 {
			equal(t, "status", res.Code, 0)
			equal(t, "answer", shown(res.Fields), "next 1 of 0-1")
			return
		}
	}
}
