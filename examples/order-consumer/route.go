package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"time"
)

// brokersOf asks a name server for the addresses of the brokers that have a topic: none, if there is no such topic.
//
// The client's admin makes topics only on a broker whose address it is given. It learns these addresses itself, and keeps them to itself; hence
// this one request in RocketMQ's own protocol.
func brokersOf(ctx context.Context, nameServers []string, topic string) ([]string, error) {
	var errs []error
	for _, server := range nameServers {
		brokers, err := askRoute(ctx, server, topic)
		if err == nil {
			return brokers, nil
		}
		errs = append(errs, fmt.Errorf("-namesrv: asking the name server at %s for its brokers: %w (does it run?)", server, err))
	}
	return nil, errors.Join(errs...)
}

const (
	routeRequest  = 105
	topicNotExist = 17
	longestFrame  = 16 << 20
)

// masterAddr finds the masters' addresses. The answer is JSON but for its numbers as keys, {"brokerAddrs":{0:"10.0.0.1:10911"}}.
var masterAddr = regexp.MustCompile(`"brokerAddrs":\{(?:[^}]*,)?"?0"?:"([^"]+)"`)

func askRoute(ctx context.Context, server, topic string) ([]string, error) {
	conn, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Second))

	// A frame is: the length of what follows, the length of the header, the header, the body.
	header, err := json.Marshal(map[string]any{"code": routeRequest, "opaque": 1, "language": "GO", "extFields": map[string]string{"topic": topic}})
	if err != nil {
		return nil, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header))) //nolint:gosec // a few hundred bytes
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))  //nolint:gosec // as above
	if _, err := conn.Write(append(frame, header...)); err != nil {
		return nil, err
	}

	var lengths struct{ Frame, Header uint32 }
	if err := binary.Read(conn, binary.BigEndian, &lengths); err != nil {
		return nil, err
	}
	lengths.Header &= 1<<24 - 1 // the highest byte says how it is encoded: 0, as was asked
	if lengths.Frame > longestFrame || lengths.Frame < 4+lengths.Header {
		return nil, errors.New("this is no name server: its answer is not in RocketMQ's protocol")
	}
	answer := make([]byte, lengths.Frame-4)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	var head struct {
		Code   int
		Remark string
	}
	if err := json.Unmarshal(answer[:lengths.Header], &head); err != nil {
		return nil, err
	}
	switch head.Code {
	case topicNotExist:
		return nil, nil
	case 0:
	default:
		return nil, fmt.Errorf("it answers code %d: %s", head.Code, head.Remark)
	}
	var brokers []string
	for _, found := range masterAddr.FindAllSubmatch(bytes.TrimSpace(answer[lengths.Header:]), -1) {
		brokers = append(brokers, string(found[1]))
	}
	return brokers, nil
}
