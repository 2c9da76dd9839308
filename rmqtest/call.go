package rmqtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ping is the code of a question about a client that does not exist, which a client answers without doing anything.
const ping Code = 307

// notify sends MembersChanged, to which no answer comes.
func (c *conn) notify(group string) {
	c.write(frame{header: header{
		Code: int(MembersChanged), Flag: flagOneWay, Opaque: c.nextOpaque(), Fields: map[string]string{"consumerGroup": group},
	}})
}

func (c *conn) nextOpaque() int32 {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.opaque++
	return c.opaque
}

// call sends a request to the client and waits for its answer.
func (c *conn) call(ctx context.Context, code Code, fields map[string]string, body []byte) (frame, error) {
	opaque, reply := c.nextOpaque(), make(chan frame, 1)
	c.b.mu.Lock()
	c.calls[opaque] = reply
	c.b.mu.Unlock()
	defer func() {
		c.b.mu.Lock()
		delete(c.calls, opaque)
		c.b.mu.Unlock()
	}()
	c.write(frame{header: header{Code: int(code), Opaque: opaque, Fields: fields}, body: body})
	select {
	case f := <-reply:
		return f, nil
	case <-c.ctx.Done():
		return frame{}, errors.New("the client's connection has ended")
	case <-ctx.Done():
		return frame{}, ctx.Err()
	}
}

// answered takes a client's answer to one of our requests. One that nobody waits for is dropped.
func (c *conn) answered(f frame) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if reply := c.calls[f.Opaque]; reply != nil {
		delete(c.calls, f.Opaque)
		reply <- f
	}
}

// A DirectResult is what a client says of a message that it was told to consume directly.
type DirectResult struct {
	// Result is 0 for success, 1 for retry later and 4 for an error that the handler returned. The client says 0 too
	// for the results that only an ordered consumer's handler gives.
	Result int    `json:"consumeResult"`
	Remark string `json:"remark"`
}

// ConsumeDirectly hands a message, such as one of DeadLetterTopic, to one member's handler past all queues, as the
// operators' tools do, and waits for the outcome. The handler gets a concurrent consumer's context even in an ordered
// one, and whatever it returns nothing is acknowledged, retried or counted as a delivery. The member is named by its
// client ID or instance name. ctx limits the wait.
func (b *Broker) ConsumeDirectly(ctx context.Context, group, member string, m Message) (DirectResult, error) {
	if err := errors.Join(checkTopic(m.Topic), m.check()); err != nil {
		return DirectResult{}, fmt.Errorf("rmqtest: %w", err)
	}
	b.mu.Lock()
	target, err := b.member(group, member)
	b.mu.Unlock()
	if err != nil {
		return DirectResult{}, err
	}
	f, err := target.conn.call(ctx, Consume, map[string]string{
		"consumerGroup": group, "clientId": target.id, "msgId": m.ID(), "brokerName": brokerName,
	}, appendRecord(nil, &m))
	if err != nil {
		return DirectResult{}, fmt.Errorf("rmqtest: consume directly at %s: %w", target.id, err)
	}
	if f.Code != int(OK) {
		return DirectResult{}, fmt.Errorf("rmqtest: consume directly at %s: the client answered %d: %s", target.id, f.Code, f.Remark)
	}
	var res DirectResult
	if err := json.Unmarshal(f.body, &res); err != nil {
		return DirectResult{}, fmt.Errorf("rmqtest: consume directly at %s: %w", target.id, err)
	}
	return res, nil
}
