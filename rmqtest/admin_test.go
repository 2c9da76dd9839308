package rmqtest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

func TestAdmin(t *testing.T) {
	// Not parallel: an admin cannot be given an instance name, so that there is one a process.
	b := start(t, rmqtest.Config{})
	a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{b.Addr()})))
	must(t, err)
	defer a.Close()
	must(t, a.CreateTopic(ctx(t), admin.WithTopicCreate("orders"), admin.WithBrokerAddrCreate(b.Addr()), admin.WithReadQueueNums(3), admin.WithWriteQueueNums(3)))
	queues, err := a.FetchPublishMessageQueues(ctx(t), "orders")
	must(t, err)
	equal(t, "queues", len(queues), 3)
	list, err := a.FetchAllTopicList(ctx(t))
	must(t, err)
	equal(t, "topics", fmt.Sprint(list.TopicList), "[orders]")

	topic(t, b, "other", 1)
	must(t, a.DeleteTopic(ctx(t), admin.WithTopicDelete("other"), admin.WithBrokerAddrDelete(b.Addr()), admin.WithNameSrvAddr([]string{b.Addr()})))
	if slices.Contains(b.Topics(), "other") {
		t.Error("a deleted topic is still there")
	}
}
