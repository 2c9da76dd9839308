package rmqtest_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

func encode(t testing.TB, f rmqtest.Frame) []byte {
	t.Helper()
	data, err := f.Encode()
	must(t, err)
	return data
}

func TestMalformedFrames(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"negative length":      "\xff\xff\xff\xff",
		"length too small":     "\x00\x00\x00\x03",
		"length too large":     "\x7f\xff\xff\xff",
		"header beyond frame":  "\x00\x00\x00\x04\x00\x00\x00\x09",
		"binary codec":         "\x00\x00\x00\x06\x01\x00\x00\x02{}",
		"header is no JSON":    "\x00\x00\x00\x06\x00\x00\x00\x02{{",
		"number in a field":    "\x00\x00\x00\x1b\x00\x00\x00\x17{\"extFields\":{\"a\":1234}}",
		"opaque out of bounds": "\x00\x00\x00\x19\x00\x00\x00\x15{\"opaque\":99999999999}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, rmqtest.Config{})
			nc, err := net.Dial("tcp", b.Addr())
			must(t, err)
			defer nc.Close()
			_, err = io.WriteString(nc, data)
			must(t, err)
			must(t, nc.SetReadDeadline(time.Now().Add(patience)))
			if n, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("read %d bytes, %v; want the connection closed", n, err)
			}
			equal(t, "malformed", b.Malformed(), 1)
		})
	}
}

func TestUnsupportedRequests(t *testing.T) {
	t.Parallel()
	b := start(t, rmqtest.Config{})
	nc, err := net.Dial("tcp", b.Addr())
	must(t, err)
	defer nc.Close()
	for opaque, code := range []int{37, 324, 310, -1, 1 << 20} {
		_, err = nc.Write(encode(t, rmqtest.Frame{Code: code, Opaque: int32(opaque)}))
		must(t, err)
		res, err := rmqtest.ReadFrame(nc)
		must(t, err)
		equal(t, "status", res.Code, int(rmqtest.NotSupported))
		equal(t, "opaque", res.Opaque, int32(opaque))
	}
}

// FuzzFrame: whatever comes is one frame or an error, and a frame that is written again reads the same.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x06\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x29\x00\x00\x00\x21{\"code\":10,\"extFields\":{\"a\":\"b\"}}body"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		first, err := rmqtest.ReadFrame(r)
		if err != nil {
			if !errors.Is(err, rmqtest.ErrFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			return
		}
		again, err := rmqtest.ReadFrame(bytes.NewReader(encode(t, first)))
		if err != nil {
			t.Fatal(err)
		}
		if again.Code != first.Code || again.Opaque != first.Opaque || !bytes.Equal(again.Body, first.Body) || !maps.Equal(again.Fields, first.Fields) {
			t.Fatalf("%+v became %+v", first, again)
		}
	})
}

// FuzzConnection: a broker reads any bytes to the end without hanging, and afterwards works as before.
func FuzzConnection(f *testing.F) {
	for _, req := range fuzzRequests {
		f.Add(append(encode(f, req), encode(f, req)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := start(t, rmqtest.Config{LongPoll: time.Millisecond})
		client := pipe(t, b)
		go func() { _, _ = io.Copy(io.Discard, client) }()
		_, _ = client.Write(data)
		_ = client.Close()
		ask(t, pipe(t, b), rmqtest.Frame{Code: int(rmqtest.ListTopics)})
	})
}

var fuzzRequests = []rmqtest.Frame{
	{Code: 10, Fields: map[string]string{
		"topic": "t", "queueId": "0", "flag": "1", "sysFlag": "49", "reconsumeTimes": "0", "bornTimestamp": "1",
		"maxReconsumeTimes": "0", "properties": "DELAY\x011\x02UNIQ_KEY\x01u\x02", "defaultTopicQueueNums": "4",
	}, Body: []byte("body")},
	{Code: 10, Fields: map[string]string{
		"topic": "%RETRY%g", "queueId": "-1", "flag": "0", "sysFlag": "0", "reconsumeTimes": "3", "bornTimestamp": "-1", "maxReconsumeTimes": "2",
	}},
	{Code: 320, Fields: map[string]string{"b": "t", "e": "0", "g": "1"}, Body: slices.Concat(
		[]byte("\x00\x00\x00\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x01a\x00\x01b"),
		[]byte("\x00\x00\x00\x16\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
	)},
	{Code: 36, Fields: map[string]string{"group": "g", "offset": "0", "delayLevel": "0", "maxReconsumeTimes": "16"}},
	{Code: 36, Fields: map[string]string{"group": "g", "offset": "0", "delayLevel": "-1", "maxReconsumeTimes": "16"}},
	{Code: 11, Fields: map[string]string{
		"consumerGroup": "g", "topic": "t", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "3", "commitOffset": "1", "suspendTimeoutMillis": "20000",
	}},
	{Code: 15, Fields: map[string]string{"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": "-1"}},
	{Code: 14, Fields: map[string]string{"consumerGroup": "g", "topic": "t", "queueId": "0"}},
	{Code: 29, Fields: map[string]string{"topic": "t", "queueId": "0", "timestamp": "9223372036854775807"}},
	{Code: 30, Fields: map[string]string{"topic": "t", "queueId": "0"}},
	{Code: 34, Body: []byte(`{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"topic":"t","subString":"a || b"}]}]}`)},
	{Code: 38, Fields: map[string]string{"consumerGroup": "g"}},
	{Code: 41, Body: []byte(`{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"t","brokerName":"b","queueId":0}]}`)},
	{Code: 42, Body: []byte(`{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"t","brokerName":"b","queueId":0}]}`)},
	{Code: 105, Fields: map[string]string{"topic": "%RETRY%g"}},
	{Code: 17, Fields: map[string]string{"topic": "t2", "readQueueNums": "4"}},
	{Code: 215, Fields: map[string]string{"topic": "t"}},
}

// FuzzRequest: every request is answered under its own number, whatever its fields and its body, and what can be pulled
// afterwards is read by the client as exactly the messages that the broker holds.
func FuzzRequest(f *testing.F) {
	for _, req := range fuzzRequests {
		var fields strings.Builder
		for name, value := range req.Fields {
			fields.WriteString(name + "=" + value + "\n")
		}
		f.Add(req.Code, fields.String(), req.Body)
	}
	f.Fuzz(func(t *testing.T, code int, fields string, body []byte) {
		b := start(t, rmqtest.Config{LongPoll: time.Millisecond, QueuesPerTopic: 1})
		client := pipe(t, b)
		ask(t, client, fuzzRequests[0]) // so that there is something to work on
		b.ReleaseDelayed()
		req := rmqtest.Frame{Code: code, Fields: make(map[string]string), Body: body}
		for line := range strings.Lines(strings.ToValidUTF8(fields, "?")) {
			if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
				req.Fields[name] = value
			}
		}
		ask(t, client, req)
		b.ReleaseDelayed()
		for _, topic := range b.Topics() {
			held := b.Messages(topic)
			next := 0
			for _, m := range held {
				if m.QueueID == 0 {
					next++
				}
			}
			if next == 0 {
				continue
			}
			res := ask(t, client, rmqtest.Frame{Code: 11, Fields: map[string]string{
				"consumerGroup": "reader", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1000",
				"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0",
			}})
			equal(t, "status", res.Code, 0)
			for i, got := range primitive.DecodeMessage(res.Body) {
				sameMessage(t, got, held[i])
			}
		}
	})
}

func pipe(t testing.TB, b *rmqtest.Broker) net.Conn {
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.ServeConn(server)
	}()
	t.Cleanup(func() {
		_ = client.Close()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("the connection's end was not noticed")
		}
	})
	return client
}

// ask sends a request and returns its answer, past whatever the broker asks in between.
func ask(t testing.TB, nc net.Conn, req rmqtest.Frame) rmqtest.Frame {
	t.Helper()
	req.Opaque, req.Flag = 4711, 0
	must(t, nc.SetDeadline(time.Now().Add(patience)))
	data := encode(t, req)
	wrote := make(chan error, 1)
	go func() {
		_, err := nc.Write(data)
		wrote <- err
	}()
	for {
		res, err := rmqtest.ReadFrame(nc)
		must(t, err)
		if res.Flag&1 == 0 {
			continue
		}
		must(t, <-wrote)
		equal(t, "opaque", res.Opaque, req.Opaque)
		return res
	}
}
