package rmqdedup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// claimed returns the claims that a handler sees when msgs are delivered.
func claimed(t *testing.T, n *node, msgs ...*primitive.MessageExt) []rmqdedup.Claim {
	t.Helper()
	var claims []rmqdedup.Claim
	got := concurrently(n.Wrap(func(ctx context.Context, _ ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		claims = rmqdedup.Claims(ctx)
		return consumer.ConsumeRetryLater, nil
	}), msgs...)
	if got.result != consumer.ConsumeRetryLater {
		t.Fatalf("delivered: %s", describe(got))
	}
	return claims
}

// Whatever is wrong with the key function, the message goes by its ID, or unprotected, and never by a key that all such messages share.
func TestCase3NoKey(t *testing.T) {
	broken := map[string]rmqdedup.KeyFunc{
		"empty":  answerKey("", nil),
		"error":  answerKey("half a key", errBusiness),
		"panic":  func(context.Context, *primitive.MessageExt) (string, error) { panic("no field") },
		"panic2": func(context.Context, *primitive.MessageExt) (string, error) { panic(errBusiness) },
	}
	for name, key := range broken {
		t.Run(name+" by message ID", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Key: key})
				var r runs
				listen := n.Wrap(r.succeed())
				wantReply(t, concurrently(listen, order("1")), acknowledged)
				wantReply(t, concurrently(listen, order("2")), acknowledged)
				wantReply(t, concurrently(listen, order("1", attempt(1))), acknowledged)
				r.want(t, "1, 2")
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventNoKey: 3, rmqdedup.EventSuppressed: 1, rmqdedup.EventUnprotected: 0})
				if e := n.heard.of(rmqdedup.EventNoKey)[0]; e.Err == nil || e.Message.MsgId != "uniq-1" || e.Key.Kind != rmqdedup.MessageIDKey {
					t.Errorf("the event says %v of %v with key %v", e.Err, e.Message, e.Key)
				}
			})
		})
		t.Run(name+" unprotected", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Key: key, NoKey: rmqdedup.NoKeyUnprotected})
				var r runs
				listen := n.Wrap(r.succeed())
				for range 2 {
					wantReply(t, concurrently(listen, order("1")), acknowledged)
				}
				wantReply(t, concurrently(n.Wrap(r.fail()), order("1")), reply{result: consumer.ConsumeRetryLater, err: errBusiness})
				r.want(t, "1, 1, 1")
				n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventNoKey: 3, rmqdedup.EventUnprotected: 3})
				if last := n.heard.last(); last.Unprotected != 1 || last.Ran != 1 {
					t.Errorf("the result is %+v", last)
				}
				if len(n.callsOf(rmqdedup.OpAcquire))+len(n.callsOf(rmqdedup.OpComplete))+len(n.callsOf(rmqdedup.OpRelease)) > 0 {
					t.Error("the store was asked about a message without a key")
				}
			})
		})
	}
	t.Run("batch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, policy := range []rmqdedup.NoKeyPolicy{rmqdedup.NoKeyMessageID, rmqdedup.NoKeyUnprotected} {
				n := newNode(t, rmqdedup.Config{Key: answerKey("", nil), NoKey: policy})
				var r runs
				wantReply(t, concurrently(n.Wrap(r.succeed()), orders("1", "2", "3")...), acknowledged)
				r.want(t, "1 2 3")
			}
		})
	})
	t.Run("the panic is an error with its value", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, rmqdedup.Config{Key: broken["panic2"]})
			claimed(t, n, order("1"))
			err := n.heard.of(rmqdedup.EventNoKey)[0].Err
			var caught *rmqdedup.PanicError
			if !errors.As(err, &caught) || !errors.Is(err, errBusiness) || !strings.Contains(string(caught.Stack), "TestCase3NoKey") {
				t.Errorf("the error is %v", err)
			}
		})
	})
}

func answerKey(value string, err error) rmqdedup.KeyFunc {
	return func(context.Context, *primitive.MessageExt) (string, error) { return value, err }
}

func TestByMessageIDIsAChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Key: rmqdedup.MessageID, NoKey: rmqdedup.NoKeyUnprotected})
		claims := claimed(t, n, order("1"))
		if k := claims[0].Key; k.Kind != rmqdedup.MessageIDKey || k.Value != "uniq-1" || claims[0].Owner.IsZero() {
			t.Errorf("the claim is %+v", claims[0])
		}
		n.heard.want(t, map[rmqdedup.EventKind]int{rmqdedup.EventNoKey: 0, rmqdedup.EventUnprotected: 0})
	})
}

// One message ID, two bodies: with a business key two pieces of work, and by message ID too.
func TestCase4OneMessageIDTwoBodies(t *testing.T) {
	for name, key := range map[string]rmqdedup.KeyFunc{"business key": rmqdedup.JSONField("order.id"), "message ID": rmqdedup.MessageID} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Key: key})
				var r runs
				listen := n.Wrap(r.succeed())
				wantReply(t, concurrently(listen, order("1", sentAs("same"))), acknowledged)
				wantReply(t, concurrently(listen, order("2", sentAs("same"))), acknowledged)
				wantReply(t, concurrently(listen, order("1", sentAs("same"))), acknowledged)
				r.want(t, "1, 2")
			})
		})
	}
}

// A producer that sends again gives the order another message ID: one run by business key, two by message ID.
func TestCase5ProducerSendsAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		key  rmqdedup.KeyFunc
		want string
	}{
		"business key": {rmqdedup.Keys, "1"},
		"message ID":   {rmqdedup.MessageID, "1, 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Key: tt.key})
				var r runs
				listen := n.Wrap(r.succeed())
				wantReply(t, concurrently(listen, order("1", sentAs("first"))), acknowledged)
				wantReply(t, concurrently(listen, order("1", sentAs("second"))), acknowledged)
				r.want(t, tt.want)
			})
		})
	}
}

func TestCase6MessageIDThroughRetries(t *testing.T) {
	const unique, origin = primitive.PropertyUniqueClientMessageIdKeyIndex, primitive.PropertyOriginMessageId
	tests := []struct {
		name, unique, origin, msgID, offsetID, want string
	}{
		{name: "UNIQ_KEY wins", unique: "U", origin: "O", msgID: "U", offsetID: "X", want: "U"},
		{name: "UNIQ_KEY even if MsgId is another", unique: "U", msgID: "M", offsetID: "X", want: "U"},
		{name: "then ORIGIN_MESSAGE_ID", origin: "O", msgID: "M", offsetID: "X", want: "O"},
		{name: "then MsgId", msgID: "M", offsetID: "X", want: "M"},
		{name: "then the offset ID", offsetID: "X", want: "X"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Key: rmqdedup.MessageID})
				m := &primitive.MessageExt{MsgId: tt.msgID, OffsetMsgId: tt.offsetID}
				m.Topic = "orders"
				if tt.unique != "" {
					m.WithProperty(unique, tt.unique)
				}
				if tt.origin != "" {
					m.WithProperty(origin, tt.origin)
				}
				claims := claimed(t, n, m)
				if claims[0].Key.Value != tt.want || claims[0].MessageID != tt.want {
					t.Errorf("the key is %q and the claim's message ID %q, want %q", claims[0].Key.Value, claims[0].MessageID, tt.want)
				}
			})
		})
	}
}

// A member of a batch send has no UNIQ_KEY: its MsgId changes at each hop. Its first delivery goes by the MsgId, which the retries
// carry as ORIGIN_MESSAGE_ID.
func TestCase6BatchSendMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Key: rmqdedup.MessageID})
		first := &primitive.MessageExt{MsgId: "offset-1", OffsetMsgId: "offset-1"}
		first.Topic = "orders"
		again := &primitive.MessageExt{MsgId: "offset-2", OffsetMsgId: "offset-2", ReconsumeTimes: 1}
		again.Topic = "orders"
		again.WithProperty(primitive.PropertyOriginMessageId, "offset-1")
		if a, b := claimed(t, n, first), claimed(t, n, again); a[0].Key.Digest() != b[0].Key.Digest() {
			t.Errorf("the keys are %v and %v", a[0].Key, b[0].Key)
		}
	})
}

func TestCase7TwoGroupsOnOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		d, err := rmqdedup.New(n.table, "other-group", rmqdedup.Config{Key: rmqdedup.Keys, Observer: rmqdedup.NopObserver{}})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close(context.Background())
		var r runs
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1")), acknowledged)
		if result, _ := d.Wrap(r.succeed())(context.Background(), order("1")); result != consumer.ConsumeSuccess {
			t.Error("the other group's message is not acknowledged")
		}
		r.want(t, "1, 1")
	})
}

// On a retry the message comes by the retry topic; the client puts the original topic into it, but what consumes the topic itself, or a
// dead-letter topic, sees the property only.
func TestKeyIsOfTheTopicSentTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{})
		by := func(topic, origin string) rmqdedup.Key {
			m := order("1")
			m.Topic = topic
			if origin != "" {
				m.WithProperty(primitive.PropertyRetryTopic, origin)
			}
			return claimed(t, n, m)[0].Key
		}
		want := keyOf("1").Digest()
		for _, tt := range [][2]string{{"orders", ""}, {"orders", "other"}, {"%RETRY%" + group, "orders"}, {"%DLQ%" + group, "orders"}} {
			if k := by(tt[0], tt[1]); k.Digest() != want {
				t.Errorf("by topic %q with RETRY_TOPIC %q the key is %v", tt[0], tt[1], k)
			}
		}
		if k := by("%DLQ%"+group, ""); k.Topic != "%DLQ%"+group {
			t.Errorf("a dead-letter message that does not say whence it came has the topic %q", k.Topic)
		}
	})
}

func TestKeyHasTheNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Namespace: "shop"})
		m := order("1")
		m.Topic = "shop%orders"
		k := claimed(t, n, m)[0].Key
		if k.Group != "shop%"+group || k.Topic != "shop%orders" {
			t.Errorf("the key is of group %q and topic %q", k.Group, k.Topic)
		}
		if e := n.heard.of(rmqdedup.EventConfigured); len(e) != 1 || e[0].Group != "shop%"+group {
			t.Errorf("configured: %+v", e)
		}
	})
}

func TestConfiguredScope(t *testing.T) {
	// The same order by another tag, and by another topic.
	for scope, want := range map[rmqdedup.Scope]string{rmqdedup.ScopeTag: "1, 1, 1", rmqdedup.ScopeTopic: "1, 1", rmqdedup.ScopeGroup: "1"} {
		t.Run(scope.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, rmqdedup.Config{Scope: scope})
				var r runs
				listen := n.Wrap(r.succeed())
				for _, m := range []*primitive.MessageExt{
					order("1"),
					order("1", func(m *primitive.MessageExt) { m.WithTag("shipped") }),
					order("1", func(m *primitive.MessageExt) { m.Topic = "old-orders" }),
				} {
					wantReply(t, concurrently(listen, m), acknowledged)
				}
				r.want(t, want)
			})
		})
	}
}

// The key is what the message was before the handler ran.
func TestHandlerCannotChangeTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rmqdedup.Config{Key: rmqdedup.JSONField("order.id")})
		asked := 0
		n2 := n.another(t, rmqdedup.Config{Key: func(ctx context.Context, m *primitive.MessageExt) (string, error) {
			asked++
			return rmqdedup.JSONField("order.id")(ctx, m)
		}})
		vandal := func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for i, m := range msgs {
				m.Body, m.MsgId, m.Topic, m.ReconsumeTimes = []byte("gone"), "gone", "gone", 99
				m.WithKeys([]string{"gone"})
				m.WithTag("gone")
				m.WithProperty(primitive.PropertyUniqueClientMessageIdKeyIndex, "gone")
				msgs[i] = nil
			}
			return consumer.ConsumeSuccess, nil
		}
		wantReply(t, concurrently(n2.Wrap(vandal), order("1"), order("2")), acknowledged)
		if asked != 2 {
			t.Errorf("the key function was asked %d times for two messages", asked)
		}
		var r runs
		wantReply(t, concurrently(n.Wrap(r.succeed()), order("1"), order("2")), acknowledged)
		r.want(t, "")
		if rec := n.wantState(t, "1", rmqdedup.Done).Record; rec == nil || rec.MessageID != "uniq-1" || rec.Attempt != 0 ||
			rec.Fingerprint != rmqdedup.Fingerprint(order("1").Body) {
			t.Errorf("the record is %+v", rec)
		}
	})
}
