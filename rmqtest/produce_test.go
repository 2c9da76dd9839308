package rmqtest_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

func TestSendSync(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	msg := message(orders, "one").WithTag("paid").WithKeys([]string{"k1"})
	msg.Flag = 7
	res, err := p.SendSync(ctx(t), msg)
	must(t, err)
	equal(t, "status", res.Status, primitive.SendOK)
	equal(t, "queue offset", res.QueueOffset, 0)

	m := b.Messages(orders)[0]
	equal(t, "MsgID", m.ID(), res.MsgID)
	equal(t, "OffsetMsgID", m.OffsetID(), res.OffsetMsgID)
	equal(t, "body", string(m.Body), "one")
	equal(t, "flag", m.Flag, 7)
	for name, want := range map[string]string{
		"TAGS": "paid", "KEYS": "k1", "UNIQ_KEY": res.MsgID, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "rmqtest",
	} {
		equal(t, name, m.Properties[name], want)
	}
}

func TestSendCreatesTopic(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	send(t, newProducer(t, b), "fresh", "a", "b", "c", "d")
	queues := make(map[int]bool)
	for _, m := range b.Messages("fresh") {
		queues[m.QueueID] = true
	}
	equal(t, "queues", len(queues), 4)
}

func TestSendToUnknownTopicRefused(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{NoAutoCreate: true})
	_, err := newProducer(t, b).SendSync(ctx(t), message("nowhere", "x"))
	if err == nil || !strings.Contains(err.Error(), "route info not found") {
		t.Errorf("got %v", err)
	}
}

func TestSendBatch(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 4)
	p := newProducer(t, b)
	w := newWorker(t, b, "g", orders, nil)
	var batch []*primitive.Message
	for i := range 5 {
		batch = append(batch, message(orders, fmt.Sprint("m", i)).WithTag("t"))
	}
	res, err := p.SendSync(ctx(t), batch...)
	must(t, err)
	equal(t, "MsgID", res.MsgID, "")

	stored := b.Messages(orders)
	var ids []string
	for i, m := range stored {
		ids = append(ids, m.OffsetID())
		equal(t, "queue", m.QueueID, stored[0].QueueID)
		equal(t, "offset", m.QueueOffset, int64(i))
		equal(t, "properties", fmt.Sprint(m.Properties), "map[TAGS:t]")
		equal(t, "ID", m.ID(), m.OffsetID())
	}
	equal(t, "OffsetMsgID", res.OffsetMsgID, strings.Join(ids, ","))
	for _, m := range w.messages(t, 5) {
		if m.MsgId != m.OffsetMsgId || !slices.Contains(ids, m.MsgId) {
			t.Errorf("message with ID %s, want one of %s", m.MsgId, ids)
		}
	}
}

func TestSendOneWay(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	for i := range 100 {
		must(t, p.SendOneWay(ctx(t), message(orders, fmt.Sprint(i))))
	}
	all, err := b.WaitForMessages(ctx(t), orders, 100)
	must(t, err)
	for i, m := range all {
		equal(t, "body", string(m.Body), fmt.Sprint(i))
	}
}

func TestSendAsync(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	p := newProducer(t, b)
	ids := make(chan string, 1)
	must(t, p.SendAsync(ctx(t), func(_ context.Context, res *primitive.SendResult, err error) {
		if err != nil {
			t.Error(err)
		}
		ids <- res.MsgID
	}, message("orders", "x")))
	equal(t, "ID", takeN(t, ids, 1)[0], b.Messages("orders")[0].ID())
}

func TestSendDelayed(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{DelayLevels: []time.Duration{10 * time.Millisecond, time.Hour}})
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	w := newWorker(t, b, "g", orders, nil)

	_, err := p.SendSync(ctx(t), message(orders, "soon").WithDelayTimeLevel(1))
	must(t, err)
	m := w.messages(t, 1)[0]
	for name, want := range map[string]string{"DELAY": "1", "REAL_TOPIC": orders, "REAL_QID": "0"} {
		equal(t, name, m.GetProperty(name), want)
	}
	if took := m.StoreTimestamp - m.BornTimestamp; took < 9 {
		t.Errorf("delivered after %d ms, want 10", took)
	}

	_, err = p.SendSync(ctx(t), message(orders, "late").WithDelayTimeLevel(18))
	must(t, err)
	waiting := b.Delayed()
	equal(t, "waiting", len(waiting), 1)
	equal(t, "level", waiting[0].Level, 2) // the highest there is
	equal(t, "released", b.ReleaseDelayed(), 1)
	equal(t, "body", w.take(t, 1), "late")
}

func TestSendCompressed(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b)
	w := newWorker(t, b, "g", orders, nil)
	body := strings.Repeat("compress me ", 1000)
	send(t, p, orders, body)
	stored := b.Messages(orders)[0]
	content, err := stored.Content()
	must(t, err)
	if len(stored.Body) > len(body)/10 || !bytes.Equal(content, []byte(body)) {
		t.Errorf("stored %d bytes, content %d", len(stored.Body), len(content))
	}
	m := w.messages(t, 1)[0]
	equal(t, "SysFlag", m.SysFlag, 1)
	equal(t, "body", string(m.Body), body)
}

func TestSendRefused(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	orders := topic(t, b, "orders", 1)
	p := newProducer(t, b, producer.WithQueueSelector(producer.NewManualQueueSelector()))
	for name, c := range map[string]struct {
		msg  *primitive.Message
		want string
	}{
		"large body":       {message(orders, string(make([]byte, 5<<20))), "CODE: 13"},
		"large properties": {message(orders, "x").WithKeys([]string{strings.Repeat("k", 40_000)}), "CODE: 13"},
		"no body":          {message(orders, ""), "CODE: 1,"},
		"no such queue":    {message(orders, "x"), "CODE: 29"},
	} {
		c.msg.Queue = &primitive.MessageQueue{Topic: orders, BrokerName: "rmqtest", QueueId: 0}
		c.msg.Compress = true // as it is
		c.msg.CompressedBody = c.msg.Body
		if name == "no such queue" {
			c.msg.Queue.QueueId = 9
		}
		_, err := p.SendSync(ctx(t), c.msg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}
