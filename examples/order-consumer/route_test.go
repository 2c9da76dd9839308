package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// nameServer answers one connection after the other with these bytes. It returns its address.
func nameServer(t *testing.T, answer []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var length uint32
			_ = binary.Read(conn, binary.BigEndian, &length)
			_, _ = io.CopyN(io.Discard, conn, int64(length))
			_, _ = conn.Write(answer)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func frame(header, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	return append(append(b, header...), body...)
}

func TestRoute(t *testing.T) {
	const ok = `{"code":0,"flag":1,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":513}`
	for _, c := range []struct {
		name    string
		answer  []byte
		brokers []string
		err     string
	}{
		{
			"as RocketMQ 5.5 answers",
			frame(ok, `{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c"}],"queueDatas":[]}`), []string{"10.0.0.1:10911"}, "",
		},
		{
			"two brokers, with slaves, and one without a master",
			frame(ok, `{"brokerDatas":[{"brokerAddrs":{0:"a:1",1:"a:2"},"brokerName":"a"},{"brokerAddrs":{"1":"b:2","0":"b:1"}},{"brokerAddrs":{1:"c:2"}}]}`), []string{"a:1", "b:1"}, "",
		},
		{"no such topic", frame(`{"code":17,"remark":"No topic route info"}`, ""), nil, ""},
		{"another failure", frame(`{"code":1,"remark":"out of order"}`, ""), nil, "code 1: out of order"},
		{"nothing", nil, nil, "EOF"},
		{"no name server", []byte("-ERR unknown command\r\n"), nil, "no name server"},
		{"a header that is none", frame("hello", ""), nil, "invalid character"},
		{"a frame that breaks off", frame(ok, "{}")[:20], nil, "EOF"},
	} {
		addr := nameServer(t, c.answer)
		brokers, err := brokersOf(context.Background(), []string{addr}, "t")
		if !slices.Equal(brokers, c.brokers) {
			t.Errorf("%s: brokers %q, want %q", c.name, brokers, c.brokers)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.err)
		}
	}
}

func TestRouteAsksTheNextNameServer(t *testing.T) {
	down := nameServer(t, nil)
	up := nameServer(t, frame(`{"code":0}`, `{"brokerDatas":[{"brokerAddrs":{0:"a:1"}}]}`))
	brokers, err := brokersOf(context.Background(), []string{down, up}, "t")
	if err != nil || len(brokers) != 1 {
		t.Errorf("brokers %q, error %v", brokers, err)
	}
}
