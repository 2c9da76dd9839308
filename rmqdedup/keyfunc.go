package rmqdedup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/tidwall/gjson"
)

// A KeyFunc picks the value by which a message is told from others: equal values (within the [Scope]) are one piece of work. It is
// called once for each message of a delivery, before the handler, possibly by many goroutines at once, and must not change the message.
//
// A value that is empty, an error and a panic all mean that the message has no key; [Config.NoKey] then says by what it goes. A
// function that wants a message to go by its message ID returns [ErrByMessageID].
type KeyFunc func(ctx context.Context, m *primitive.MessageExt) (string, error)

// ErrByMessageID is returned by a [KeyFunc] that wants the message to go by its message ID. Unlike any other error it is a
// choice, and not counted.
var ErrByMessageID = errors.New("rmqdedup: by message ID")

// MessageID is the [KeyFunc] for messages without a business key: the ID that the producer's client gave the message. It stops the
// broker's redeliveries, but not a producer's own resend, which has a new ID.
//
// The ID is the property UNIQ_KEY, which survives every retry; failing that ORIGIN_MESSAGE_ID, which a retry carries; failing that the message's
// offset ID. Since two producers can make the same ID (containers with one private address and process ID in the same second), and a
// Go producer repeats its own above 65,536 messages a second, the key takes in the SHA-256 of the body as well.
func MessageID(context.Context, *primitive.MessageExt) (string, error) { return "", ErrByMessageID }

// Keys is the [KeyFunc] that takes the message's KEYS property (primitive.Message.WithKeys) as it is; several keys
// are one value, with the blanks between them.
func Keys(_ context.Context, m *primitive.MessageExt) (string, error) {
	return m.GetProperty(primitive.PropertyKeys), nil
}

// Property returns the [KeyFunc] that takes the property of that name as it is.
func Property(name string) KeyFunc {
	return func(_ context.Context, m *primitive.MessageExt) (string, error) {
		return m.GetProperty(name), nil
	}
}

// JSONField returns the [KeyFunc] that takes a field of a JSON body by a plain dotted path, such as "order.id" or "items.0.sku". A string counts as it is, with its
// escapes resolved, and a number by its text, so 42 and "42" are one key and 42 and 42.0 are two. Anything else there, a missing field, and a body that
// is not valid JSON (nested deeper than encoding/json takes, 10,000 levels, too) are no key. Of a name that stands twice in one object the first counts.
//
// It panics if the path is empty or has an empty part.
func JSONField(path string) KeyFunc {
	parts := strings.Split(path, ".")
	for _, part := range parts {
		if part == "" {
			panic(fmt.Sprintf("rmqdedup: JSONField(%q): give a dotted path without empty parts, such as \"order.id\"", path))
		}
	}
	return func(_ context.Context, m *primitive.MessageExt) (string, error) {
		if !json.Valid(m.Body) { // gjson does not look, and its own validator recurses without a limit
			return "", errors.New("the body is not valid JSON")
		}
		r := gjson.ParseBytes(m.Body)
		for _, part := range parts {
			r = jsonMember(r, part)
		}
		switch r.Type {
		case gjson.String:
			if strings.ContainsRune(r.Str, utf8.RuneError) && strings.Contains(r.Raw, `\u`) {
				// Half a surrogate pair has no text of its own: different halves would become one key.
				return "", fmt.Errorf("the string at %q has a broken \\u escape", path)
			}
			return r.Str, nil
		case gjson.Number:
			return r.Raw, nil
		}
		if !r.Exists() {
			return "", fmt.Errorf("the body has no field %q", path)
		}
		return "", fmt.Errorf("the field %q is neither a string nor a number", path)
	}
}

// jsonMember returns the member of that name of an object, or the element of that index of an array. gjson is asked for one part
// of the path at a time: a whole path would lead it on to a second member of the same name, and into the text of strings.
func jsonMember(r gjson.Result, part string) gjson.Result {
	switch {
	case r.IsObject():
	case r.IsArray():
		if i, err := strconv.Atoi(part); err != nil || strconv.Itoa(i) != part {
			return gjson.Result{}
		}
	default:
		return gjson.Result{}
	}
	return r.Get(gjson.Escape(part)) // no wildcards, queries or modifiers: the path is taken literally
}

// stableID is the message's ID as far as it survives retries, which Message.MsgId alone does not: it changes at
// every hop for members of a batch send.
func stableID(m *primitive.MessageExt) string {
	if id := m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex); id != "" {
		return id
	}
	if id := m.GetProperty(primitive.PropertyOriginMessageId); id != "" {
		return id
	}
	if m.MsgId != "" {
		return m.MsgId
	}
	return m.OffsetMsgId
}

// originTopic is the topic that the message was sent to, also when it comes by a retry or dead-letter topic.
func originTopic(m *primitive.MessageExt) string {
	if strings.HasPrefix(m.Topic, "%RETRY%") || strings.HasPrefix(m.Topic, "%DLQ%") {
		if origin := m.GetProperty(primitive.PropertyRetryTopic); origin != "" {
			return origin
		}
	}
	return m.Topic
}

// key returns the message's key; ok is false when it is to run without one. The error, if any, says why
// the key function had none.
func (d *Dedup) key(ctx context.Context, m *primitive.MessageExt) (key Key, ok bool, err error) {
	value, err := d.callKeyFunc(ctx, m)
	switch {
	case errors.Is(err, ErrByMessageID):
		err = nil
	case err == nil && value != "":
		return NewKey(BusinessKey, d.cfg.Scope, d.fullGroup, originTopic(m), m.GetTags(), value), true, nil
	default:
		if err == nil {
			err = errors.New("it returned an empty value")
		}
		if d.cfg.NoKey == NoKeyUnprotected {
			return Key{}, false, err
		}
	}
	body := sha256.Sum256(m.Body)
	return NewKey(MessageIDKey, d.cfg.Scope, d.fullGroup, originTopic(m), m.GetTags(), stableID(m), body[:]...), true, err
}

func (d *Dedup) callKeyFunc(ctx context.Context, m *primitive.MessageExt) (value string, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, err = "", newPanicError(p)
		}
	}()
	return d.cfg.Key(ctx, m)
}
