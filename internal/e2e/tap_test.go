package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// A tap is on a line to a broker, and decides by their codes what becomes of requests and of their answers.
type tap struct {
	s *story

	mu     sync.Mutex
	faults []*fault
	asked  map[int]*fault // whose answers are to come, by the number that request and answer have in common
}

// A fault is what befalls requests on their way.
type fault struct {
	codes []rmqtest.Code
	left  int // how many it befalls still; below 0, all

	request func(frame []byte) []byte // what reaches the broker in its place; nil if the request is as it was
	answer  func(frame []byte) []byte // likewise of the answer
	struck  chan struct{}             // closed when the first one has met its fate
	once    sync.Once
}

func newTap(s *story) *tap { return &tap{s: s, asked: make(map[int]*fault)} }

func (t *tap) add(f *fault) (over func()) {
	f.struck = make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, f)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		f.left = 0
	}
}

// carry is the line's rewrite.
func (t *tap) carry(frame []byte, server bool) []byte {
	var h struct{ Code, Flag, Opaque int }
	if _, err := decode(frame, &h); err != nil {
		t.s.Errorf("on the way to or from the broker: %v", err)
		return frame
	}
	isAnswer := h.Flag&1 != 0
	if isAnswer != server { // the broker asks, or is answered
		return frame
	}
	f := t.fate(isAnswer, h.Code, h.Opaque)
	if f == nil {
		return frame
	}
	change := f.request
	if isAnswer {
		change = f.answer
	}
	if change != nil {
		frame = change(frame)
	}
	if isAnswer || frame == nil {
		f.once.Do(func() { close(f.struck) })
	}
	return frame
}

// fate is what befalls a request, or an answer; nil, if nothing does.
func (t *tap) fate(isAnswer bool, code, opaque int) *fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isAnswer {
		f := t.asked[opaque]
		delete(t.asked, opaque)
		return f
	}
	for _, f := range t.faults {
		if f.left != 0 && slices.Contains(f.codes, rmqtest.Code(code)) {
			f.left--
			t.asked[opaque] = f
			return f
		}
	}
	return nil
}

func lost([]byte) []byte { return nil }

func (f *fault) wait(ctx context.Context) error {
	select {
	case <-f.struck:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a request with one of the codes %v: %w", f.codes, context.Cause(ctx))
	}
}

func (t *tap) loseRequest(code rmqtest.Code) (wait func(context.Context) error) {
	f := &fault{codes: []rmqtest.Code{code}, left: 1, request: lost}
	t.add(f)
	return f.wait
}

func (t *tap) loseAnswer(code rmqtest.Code) (wait func(context.Context) error) {
	f := &fault{codes: []rmqtest.Code{code}, left: 1, answer: lost}
	t.add(f)
	return f.wait
}

// refuse lets requests reach the broker with a code that it does not know, and so refuses.
func (t *tap) refuse(n int, codes ...rmqtest.Code) (over func()) {
	return t.add(&fault{codes: codes, left: n, request: func(frame []byte) []byte {
		return t.remake(frame, func(header map[string]any, body []byte) []byte {
			header["code"] = codeUnknown
			return body
		})
	}})
}

// show lets those who ask for the members of a group see these instances only.
func (t *tap) show(instances ...string) (over func()) {
	return t.add(&fault{codes: []rmqtest.Code{rmqtest.ListMembers}, left: -1, answer: func(frame []byte) []byte {
		return t.remake(frame, func(_ map[string]any, body []byte) []byte {
			var shown []string
			for _, id := range clientIDs.FindAllString(string(body), -1) {
				if _, instance, _ := strings.Cut(strings.Trim(id, `"`), "@"); slices.Contains(instances, instance) {
					shown = append(shown, id)
				}
			}
			return fmt.Appendf(nil, `{"consumerIdList":[%s]}`, strings.Join(shown, ","))
		})
	}})
}

// remake changes a frame's header, and gives it the body that change returns.
func (t *tap) remake(frame []byte, change func(header map[string]any, body []byte) []byte) []byte {
	var header map[string]any
	body, err := decode(frame, &header)
	if err == nil {
		frame, err = encode(header, change(header, body))
	}
	if err != nil {
		t.s.Errorf("on the way to or from the broker: %v", err)
	}
	return frame
}
