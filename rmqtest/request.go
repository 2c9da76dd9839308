package rmqtest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Request is what a client asked for. It is shared: neither a hook nor a test may change it.
type Request struct {
	Code   Code
	Client string            // the sender's client ID (ip@instance), "" before its first heart beat
	Group  string            // the consumer or producer group, where the request has one
	Topic  string            // where the request has one
	Queue  int               // -1 where the request has none
	Fields map[string]string // the header's, under their long names in a SendBatch too
	Body   []byte
	Time   time.Time

	opaque int32
}

// batchFields are the short names of a batch's header.
var batchFields = map[string]string{
	"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
	"f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
	"l": "maxReconsumeTimes", "m": "batch", "n": "bname",
}

func newRequest(f frame, client string) *Request {
	r := &Request{
		Code: Code(f.Code), Client: client, Queue: -1, Fields: f.Fields, Body: f.body, Time: time.Now(), opaque: f.Opaque,
	}
	if r.Code == SendBatch {
		long := make(map[string]string, len(f.Fields))
		for name, value := range f.Fields {
			long[batchFields[name]] = value
		}
		r.Fields = long
	}
	for _, name := range []string{"consumerGroup", "group", "producerGroup"} {
		if r.Group == "" {
			r.Group = r.Fields[name]
		}
	}
	if r.Topic = r.Fields["topic"]; r.Topic == "" {
		r.Topic = r.Fields["originTopic"]
	}
	if id, err := strconv.Atoi(r.Fields["queueId"]); err == nil {
		r.Queue = id
	}
	if r.Code == Lock || r.Code == Unlock {
		var body lockBody
		_ = json.Unmarshal(r.Body, &body) // the handler answers for what cannot be read
		r.Group, r.Client = body.Group, body.Client
	}
	return r
}

// number reads a field that has been checked.
func (r *Request) number(name string) int64 {
	n, _ := strconv.ParseInt(r.Fields[name], 10, 64)
	return n
}

// check says what is wrong with the header's fields.
func (k kind) check(r *Request) error {
	for name := range strings.FieldsSeq(k.texts) {
		if r.Fields[name] == "" {
			return fmt.Errorf("field %s is missing", name)
		}
	}
	for name := range strings.FieldsSeq(k.numbers) {
		if _, err := strconv.ParseInt(r.Fields[name], 10, 64); err != nil {
			return fmt.Errorf("field %s is no number: %.50q", name, r.Fields[name])
		}
	}
	return nil
}

// An answer is what a handler has to say.
type answer struct {
	status Status
	remark string
	fields map[string]string
	body   []byte

	told map[*conn]string // whom to tell of a changed group
	hold func() answer    // a pull that must wait: what to say comes from here, in a goroutine of its own
	sent func()           // runs with b.mu held, just before the answer leaves
}

func fail(status Status, err error) answer {
	return answer{status: status, remark: err.Error()}
}

// jsonAnswer carries a body. The client needs it compact: it takes blanks in a route for part of an address.
func jsonAnswer(v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		return fail(SystemError, err)
	}
	return answer{body: body}
}

func offsetAnswer(offset int64) answer {
	return answer{fields: map[string]string{"offset": strconv.FormatInt(offset, 10)}}
}

func (b *Broker) work(c *conn, r *Request) answer {
	k := kinds[r.Code]
	if k.work == nil {
		return fail(NotSupported, fmt.Errorf("%v is not supported", r.Code))
	}
	if err := k.check(r); err != nil {
		return fail(SystemError, err)
	}
	b.mu.Lock()
	res := k.work(b, c, r)
	b.mu.Unlock()
	tell(res.told)
	return res
}
