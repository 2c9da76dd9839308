package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// named gives a message a name for the journal that is not its key.
func named(name string) messageOption { return withProperty(labelled, name) }

// Two messages that a key function finds equal are one piece of work, however they differ otherwise; two that it finds different are two.
func TestKeyFunctions(t *testing.T) {
	tag := func(tag string) messageOption { return func(m *primitive.Message) { m.WithTag(tag) } }
	blanks := strings.Repeat(" ", 8<<10)
	for _, c := range []struct {
		name               string
		key                rmqdedup.KeyFunc
		first, same, other []messageOption
	}{{
		"Keys", rmqdedup.Keys,
		[]messageOption{withBody("one")}, []messageOption{withBody("one")},
		[]messageOption{withBody("one"), withProperty(primitive.PropertyKeys, "other")},
	}, {
		"Property", rmqdedup.Property("order"),
		[]messageOption{withProperty("order", "17")}, []messageOption{withProperty("order", "17")},
		[]messageOption{withProperty("order", "18")},
	}, {
		"JSONField", rmqdedup.JSONField("order.id"),
		[]messageOption{withBody(`{"order":{"id":17}}`)}, []messageOption{withBody(`{"order":{"id":17}}`)},
		[]messageOption{withBody(`{"order":{"id":18}}`)},
	}, {
		"JSONFieldOfACompressedBody", rmqdedup.JSONField("order.id"), // the client compresses from 4 KiB on
		[]messageOption{withBody(`{"order":{"id":17}}` + blanks)}, []messageOption{withBody(`{"order":{"id":17}}` + blanks)},
		[]messageOption{withBody(`{"order":{"id":18}}` + blanks)},
	}, {
		"MessageID", rmqdedup.MessageID,
		[]messageOption{withID("an-id")}, []messageOption{withID("an-id")},
		[]messageOption{withID("another-id")},
	}, {
		"Tag", rmqdedup.Keys, // it names the event, and is part of the key
		[]messageOption{tag("paid")}, []messageOption{tag("paid")},
		[]messageOption{tag("shipped")},
	}} {
		t.Run(c.name, func(t *testing.T) {
			play(t, setting{store: private}, func(s *story) {
				s.join("a", s.does(succeed), func(r *role) { r.Key = c.key })
				for i, options := range [][]messageOption{c.first, c.same, c.other} {
					s.send("key", append(options, named(fmt.Sprintf("message-%d", i)))...)
					s.await(acknowledged, fmt.Sprintf("message-%d", i))
				}
				s.want(1, rmqdedup.EventSuppressed, "message-1")
				s.successes["message-1"] = 0
			})
		})
	}
}

// Cases 1 and 2: keys that differ by case, a trailing blank, an accent, an emoji or their length alone, or whose parts together read the same,
// are all distinct.
func TestKeysThatLookAlike(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.join("a", s.does(succeed), func(r *role) { r.Key = rmqdedup.Property("order") })
		long := fmt.Sprintf("%01000d", 1)
		for i, key := range []string{"order", "Order", "order ", "ordér", "order\U0001F600", "order\U0001F601", long, long + "1", "order:1", "order/1"} {
			s.send(fmt.Sprintf("message-%d", i), withProperty("order", key))
		}
		s.await(acknowledged, "", len(s.copies))
		s.want(0, rmqdedup.EventSuppressed, "")
	})
}

// Case 3: messages for which the key function has no value go by their message IDs, and are never one piece of work.
func TestNoKey(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.expect(rmqdedup.EventNoKey)
		s.join("a", s.does(succeed), func(r *role) {
			r.Key = func(_ context.Context, m *primitive.MessageExt) (string, error) {
				if nameOf(&m.Message) == "panics" {
					panic("as the story has it")
				}
				return "", nil
			}
		})
		for _, name := range []string{"empty-1", "empty-2", "panics"} {
			s.send(name, withID("id-of-"+name))
			s.await(acknowledged, name)
			s.send(name, withID("id-of-"+name))
			s.await(rmqdedup.EventSuppressed, name)
		}
	})
}

// Case 4: one message ID with two bodies, as two containers can make it, is two pieces of work, by message ID and by business key alike.
func TestOneMessageIDWithTwoBodies(t *testing.T) {
	for name, key := range map[string]rmqdedup.KeyFunc{"MessageID": rmqdedup.MessageID, "Keys": rmqdedup.Keys} {
		t.Run(name, func(t *testing.T) {
			play(t, setting{}, func(s *story) {
				s.join("a", s.does(succeed), func(r *role) { r.Key = key })
				s.send("order-1", withID("the-id"), withBody("one body"))
				s.send("order-2", withID("the-id"), withBody("another body"))
				s.await(acknowledged, "", 2)
				s.want(0, rmqdedup.EventSuppressed, "")
			})
		})
	}
}

// One business key with two bodies is one run, and told, since the key function may pick too little.
func TestOneKeyWithTwoBodies(t *testing.T) {
	play(t, setting{claims: true}, func(s *story) {
		s.expect(rmqdedup.EventBodyDiffers)
		s.join("a", s.does(succeed))
		s.send("order-1", withBody("one body"))
		s.await(acknowledged, "order-1")
		s.send("order-1", withBody("another body"))
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.await(rmqdedup.EventBodyDiffers, "order-1")
	})
}

// Case 6: by its message ID a message is known at every retry, and after the last.
func TestMessageIDSurvivesRetries(t *testing.T) {
	play(t, setting{}, func(s *story) {
		s.join("a", s.does(fail, fail, succeed), func(r *role) { r.Key = rmqdedup.MessageID })
		s.send("order-1", withID("the-id"))
		s.await(acknowledged, "order-1")
		s.send("order-1", withID("the-id"))
		s.await(rmqdedup.EventSuppressed, "order-1")
		s.want(3, started, "order-1")
	})
}

// A namespace is part of the topic and the group that the client sees, and so of the key.
func TestNamespace(t *testing.T) {
	play(t, setting{namespace: "ns"}, func(s *story) {
		s.join("a", s.does(fail, succeed))
		s.send("order-1")
		s.await(acknowledged, "order-1")
		s.send("order-1")
		s.await(rmqdedup.EventSuppressed, "order-1")
		if state := s.state("order-1"); state != rmqdedup.Done {
			s.Errorf("the key with the namespace is %v", state)
		}
	})
}
