package rmqtest_test

import (
	"bytes"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// FuzzRecord: any message that the broker would store is read by the client as it is, alone and among others.
func FuzzRecord(f *testing.F) {
	f.Add("topic", []byte("body"), "UNIQ_KEY\x01id\x02TAGS\x01a\x02", int32(7), int32(1), int64(3), int64(1700000000000))
	f.Add("%RETRY%g", []byte{}, "\x01\x02\x01", int32(-1), int32(-1), int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, topic string, body []byte, props string, flag, times int32, offset, at int64) {
		m := rmqtest.Message{
			Topic: topic, QueueID: int(flag), QueueOffset: offset, CommitLogOffset: offset, Flag: flag, ReconsumeTimes: times,
			BornTime: time.UnixMilli(at), StoreTime: time.UnixMilli(at), Body: body, Properties: rmqtest.DecodeProperties(props),
			BornHost: netip.MustParseAddrPort("127.0.0.1:65535"), StoreHost: netip.MustParseAddrPort("127.0.0.1:1"),
		}
		if m.Check() != nil {
			return
		}
		data := rmqtest.AppendRecord(rmqtest.AppendRecord(nil, &m), &m)
		msgs := primitive.DecodeMessage(data)
		if len(msgs) != 2 {
			t.Fatalf("2 records were read as %d", len(msgs))
		}
		for _, got := range msgs {
			equal(t, "size", int(got.StoreSize), len(data)/2)
			sameMessage(t, got, m)
		}
	})
}

func sameMessage(t *testing.T, got *primitive.MessageExt, want rmqtest.Message) {
	t.Helper()
	equal(t, "topic", got.Topic, want.Topic)
	equal(t, "queue", int32(got.Queue.QueueId), int32(want.QueueID))
	equal(t, "queue offset", got.QueueOffset, want.QueueOffset)
	equal(t, "commit log offset", got.CommitLogOffset, want.CommitLogOffset)
	equal(t, "flag", got.Flag, want.Flag)
	equal(t, "sysFlag", got.SysFlag, want.SysFlag)
	equal(t, "reconsumeTimes", got.ReconsumeTimes, want.ReconsumeTimes)
	equal(t, "born", got.BornTimestamp, want.BornTime.UnixMilli())
	equal(t, "stored", got.StoreTimestamp, want.StoreTime.UnixMilli())
	equal(t, "ID", got.MsgId, want.ID())
	equal(t, "offset ID", got.OffsetMsgId, want.OffsetID())
	if want.SysFlag&1 == 0 && !bytes.Equal(got.Body, want.Body) {
		t.Errorf("body: got %q, want %q", got.Body, want.Body)
	}
	if !maps.Equal(got.GetProperties(), want.Properties) {
		t.Errorf("properties: got %q, want %q", got.GetProperties(), want.Properties)
	}
}

// FuzzBatch: a batch's body is members or an error, and the client's own batches are read as they were sent.
func FuzzBatch(f *testing.F) {
	f.Add([]byte("body"), []byte("\x00\x00\x00\x16\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x01a\x00\x00"))
	f.Add([]byte{}, []byte("\x00\x00\x00\x16\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, body, junk []byte) {
		members, err := rmqtest.DecodeBatch(junk)
		if (err == nil) != (len(members) > 0) {
			t.Errorf("%d members and %v", len(members), err)
		}
		sent := primitive.NewMessage("t", body).WithTag("tag")
		data := append(sent.Marshal(), sent.Marshal()...)
		members, err = rmqtest.DecodeBatch(data)
		must(t, err)
		equal(t, "members", len(members), 2)
		for _, m := range members {
			equal(t, "body", string(m.Body), string(body))
			equal(t, "tag", m.Properties["TAGS"], "tag")
		}
	})
}
