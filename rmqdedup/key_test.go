package rmqdedup_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func businessKey(group, topic, tag, value string) rmqdedup.Key {
	return rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, group, topic, tag, value)
}

// wantDistinct checks that no two of some keys are equal.
func wantDistinct(t *testing.T, keys map[string]rmqdedup.Key) {
	t.Helper()
	seen := make(map[[32]byte]string)
	for name, k := range keys {
		if k.IsZero() {
			t.Errorf("the key of %s is zero", name)
		}
		if other, again := seen[k.Digest()]; again {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[k.Digest()] = name
	}
}

func TestCase1KeysAreComparedByteForByte(t *testing.T) {
	long := strings.Repeat("k", 300)
	keys := make(map[string]rmqdedup.Key)
	for _, value := range []string{
		"order", "Order", "ORDER", "order ", " order", "order\t", "order\x00", "órder", "o\u0301rder", "order\U0001f600", "order\U0001f601",
		long, long + "a", long + "b", strings.Repeat("k", 64<<10), strings.Repeat("k", 64<<10+1), "\xff", "\xfe", "0", "00", "0.0",
	} {
		keys[value] = businessKey("g", "t", "", value)
	}
	wantDistinct(t, keys)
}

func TestCase2JoinedPartsDoNotCollide(t *testing.T) {
	keys := make(map[string]rmqdedup.Key)
	for _, p := range [][4]string{
		{"a:b", "c", "", "v"}, {"a", "b:c", "", "v"}, {"a", "b", "c", "v"}, {"a", "b", "", "cv"}, {"a", "b", "cv", ""}, {"a", "bc", "", "v"}, {"ab", "c", "", "v"},
		{"", "abc", "", "v"}, {"abc", "", "", "v"}, {"abc", "", "v", ""}, {"a\x00", "b", "", "v"}, {"a", "\x00b", "", "v"}, {"a", "b", "\x00", "v"},
	} {
		keys[strings.Join(p[:], "|")] = businessKey(p[0], p[1], p[2], p[3])
	}
	// A value that spells out the encoding of other parts.
	inner := binary.BigEndian.AppendUint64(nil, 1)
	keys["an encoded length"] = businessKey("a", "b", "", string(inner)+"v")
	wantDistinct(t, keys)
}

func TestCase7ConsumerGroupsDoNotShareKeys(t *testing.T) {
	wantDistinct(t, map[string]rmqdedup.Key{
		"one":             businessKey("one", "t", "", "v"),
		"two":             businessKey("two", "t", "", "v"),
		"in a namespace":  businessKey("ns%one", "t", "", "v"),
		"in another's":    businessKey("ns2%one", "t", "", "v"),
		"of another tag":  businessKey("one", "t", "tag", "v"),
		"of a message ID": rmqdedup.NewKey(rmqdedup.MessageIDKey, rmqdedup.ScopeTag, "one", "t", "", "v"),
		"with a body": rmqdedup.NewKey(rmqdedup.MessageIDKey, rmqdedup.ScopeTag, "one", "t", "", "v",
			bytes.Repeat([]byte{1}, 32)...),
		"with another body": rmqdedup.NewKey(rmqdedup.MessageIDKey, rmqdedup.ScopeTag, "one", "t", "", "v",
			bytes.Repeat([]byte{2}, 32)...),
	})
}

func TestScopesLeaveOutParts(t *testing.T) {
	of := func(s rmqdedup.Scope, topic, tag string) rmqdedup.Key {
		return rmqdedup.NewKey(rmqdedup.BusinessKey, s, "g", topic, tag, "v")
	}
	equal := func(a, b rmqdedup.Key) bool { return a.Digest() == b.Digest() }
	tests := []struct {
		name string
		a, b rmqdedup.Key
		same bool
	}{
		{"tag: another tag", of(rmqdedup.ScopeTag, "t", "x"), of(rmqdedup.ScopeTag, "t", "y"), false},
		{"topic: another tag", of(rmqdedup.ScopeTopic, "t", "x"), of(rmqdedup.ScopeTopic, "t", "y"), true},
		{"topic: another topic", of(rmqdedup.ScopeTopic, "t", "x"), of(rmqdedup.ScopeTopic, "u", "x"), false},
		{"group: another topic and tag", of(rmqdedup.ScopeGroup, "t", "x"), of(rmqdedup.ScopeGroup, "u", "y"), true},
		{"no tag is not the topic's scope", of(rmqdedup.ScopeTag, "t", ""), of(rmqdedup.ScopeTopic, "t", ""), false},
		{"no topic is not the group's scope", of(rmqdedup.ScopeTopic, "", ""), of(rmqdedup.ScopeGroup, "", ""), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if equal(tt.a, tt.b) != tt.same {
				t.Errorf("the same key: %v, want %v", !tt.same, tt.same)
			}
		})
	}
	if k := of(rmqdedup.ScopeGroup, "t", "x"); k.Topic != "" || k.Tag != "" || k.Group != "g" || k.Value != "v" {
		t.Errorf("the parts of a key of the group's scope are %+v", k)
	}
}

// The digest is what every store has in it: a change of the encoding makes all of that unknown.
func TestEncodingIsFixed(t *testing.T) {
	tests := []struct {
		name string
		key  rmqdedup.Key
		want string
	}{
		{"business key", businessKey("order-group", "orders", "paid", "17"), "73c499c0deadf75d2c787558621941ce0d48c46fd2ea8a36775f7e4cd72ff9f1"},
		{"message ID", rmqdedup.NewKey(rmqdedup.MessageIDKey, rmqdedup.ScopeGroup, "g", "t", "", "id", 1, 2, 3), "43f9b3c52a7aa539be5bf440885ddf233f93f01e4594437a2b5503db16d538b4"},
	}
	for _, tt := range tests {
		if got := tt.key.Digest(); hexOf(got[:]) != tt.want {
			t.Errorf("%s: the digest is %x, want %s", tt.name, got, tt.want)
		}
	}
}

func TestRestoreKey(t *testing.T) {
	k := businessKey("g", "t", "tag", strings.Repeat("v", 2000))
	short := k.Readable()
	if short.Value != "" || short.Tag != "tag" {
		t.Errorf("a value above 1 KiB is kept as %d bytes, tag %q", len(short.Value), short.Tag)
	}
	if restored := rmqdedup.RestoreKey(short, k.Digest()); restored.Digest() != k.Digest() {
		t.Error("a restored key is another")
	}
	small := businessKey("g", "t", "tag", "v")
	if small.Readable() != small {
		t.Error("a short key is not kept as it is")
	}
	edge := businessKey("g", "t", "", strings.Repeat("v", 1022))
	if edge.Readable().Value == "" || businessKey("g", "t", "x", edge.Value).Readable().Value != "" {
		t.Error("1 KiB in all is the limit, neither less nor more")
	}
}

func TestKeyString(t *testing.T) {
	tests := []struct {
		key  rmqdedup.Key
		want string
	}{
		{businessKey("g", "orders", "paid", "order-17"), "orders/paid: order-17"},
		{businessKey("g", "orders", "", "order-17"), "orders: order-17"},
		{rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeGroup, "g", "orders", "paid", "order-17"), "order-17"},
		{businessKey("g", "orders", "", "a\nb\x00é"), `orders: a\nb\x00é`},
		{businessKey("g", "orders", "pa\nid", "17"), `orders/pa\nid: 17`},
		{businessKey("g", "orders", "", strings.Repeat("é", 100)), "orders: " + strings.Repeat("é", 60) + "…"},
		{businessKey("g", "orders", "", "x"+strings.Repeat("é", 100)), "orders: x" + strings.Repeat("é", 59) + "…"},
	}
	for _, tt := range tests {
		if got := tt.key.String(); got != tt.want {
			t.Errorf("String() is %q, want %q", got, tt.want)
		}
	}
	long := businessKey("g", "orders", "", strings.Repeat("v", 5000)).Readable()
	digest := long.Digest()
	if got, want := long.String(), "orders: #"+hexOf(digest[:8]); got != want {
		t.Errorf("a key without its value is %q, want %q", got, want)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		rmqdedup.BusinessKey.String():     "business key",
		rmqdedup.MessageIDKey.String():    "message ID",
		rmqdedup.KeyKind(9).String():      "KeyKind(9)",
		rmqdedup.ScopeTag.String():        "tag",
		rmqdedup.ScopeTopic.String():      "topic",
		rmqdedup.ScopeGroup.String():      "group",
		rmqdedup.Scope(9).String():        "Scope(9)",
		rmqdedup.Concurrent.String():      "concurrent",
		rmqdedup.Ordered.String():         "ordered",
		rmqdedup.Broadcasting.String():    "broadcasting",
		rmqdedup.Mode(9).String():         "Mode(9)",
		rmqdedup.OpAcquire.String():       "acquire",
		rmqdedup.OpForget.String():        "forget",
		rmqdedup.Op(0).String():           "no operation",
		rmqdedup.Op(99).String():          "Op(99)",
		rmqdedup.Claimed.String():         "claimed",
		rmqdedup.Lost.String():            "lost",
		rmqdedup.Outcome(0).String():      "no outcome",
		rmqdedup.Outcome(99).String():     "Outcome(99)",
		rmqdedup.EventSuppressed.String(): "suppressed",
		rmqdedup.EventWarning.String():    "warning",
		rmqdedup.EventKind(99).String():   "EventKind(99)",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Two processes may share host name, address and process ID, as in containers; their owners have nothing of these in them.
func TestCase14OwnersDiffer(t *testing.T) {
	a, b := rmqdedup.NewOwner(), rmqdedup.NewOwner()
	if a == b || a.IsZero() || !(rmqdedup.Owner{}).IsZero() {
		t.Errorf("owners %v and %v", a, b)
	}
	if got := a.String(); len(got) != 32 || got == b.String() {
		t.Errorf("an owner's string is %q", got)
	}
}

func TestFingerprintIsFixed(t *testing.T) {
	// The xxHash of the empty body and of one letter, from its specification.
	if got := rmqdedup.Fingerprint(nil); got != 0xef46db3751d8e999 {
		t.Errorf("the fingerprint of nothing is %#x", got)
	}
	if got := rmqdedup.Fingerprint([]byte("a")); got != 0xd24ec4f1a98c6e5b {
		t.Errorf(`the fingerprint of "a" is %#x`, got)
	}
}

// FuzzKeyEncoding checks that two keys are equal exactly when everything that they were made of is.
func FuzzKeyEncoding(f *testing.F) {
	f.Add(uint8(1), uint8(0), "a:b", "c", "", "v", "", uint8(1), uint8(0), "a", "b:c", "", "v", "")
	f.Add(uint8(1), uint8(1), "a", "b", "c", "v", "", uint8(1), uint8(1), "a", "b", "d", "v", "")
	f.Add(uint8(2), uint8(2), "a", "b", "c", "v", "x", uint8(2), uint8(2), "a", "e", "d", "v", "x")
	f.Add(uint8(2), uint8(0), "a", "b", "c", "v", "x", uint8(1), uint8(0), "a", "b", "c", "vx", "")
	f.Add(uint8(1), uint8(0), "", "", "", "", "", uint8(1), uint8(0), "", "", "", "\x00", "")
	f.Fuzz(func(t *testing.T,
		kind1, scope1 uint8, group1, topic1, tag1, value1, extra1 string, kind2, scope2 uint8, group2, topic2, tag2, value2, extra2 string) {
		scope1, scope2 = scope1%3, scope2%3
		a := rmqdedup.NewKey(rmqdedup.KeyKind(kind1), rmqdedup.Scope(scope1), group1, topic1, tag1, value1, []byte(extra1)...)
		b := rmqdedup.NewKey(rmqdedup.KeyKind(kind2), rmqdedup.Scope(scope2), group2, topic2, tag2, value2, []byte(extra2)...)
		same := kind1 == kind2 && scope1 == scope2 && group1 == group2 && value1 == value2 && extra1 == extra2 &&
			(rmqdedup.Scope(scope1) == rmqdedup.ScopeGroup || topic1 == topic2) &&
			(rmqdedup.Scope(scope1) != rmqdedup.ScopeTag || tag1 == tag2)
		if (a.Digest() == b.Digest()) != same {
			t.Errorf("%+v and %+v: equal is %v, want %v", a, b, !same, same)
		}
		if len(a.String()) > 4*120+8*(len(topic1)+len(tag1))+20 {
			t.Errorf("the string of a key with a value of %d bytes has %d", len(value1), len(a.String()))
		}
		if r := rmqdedup.RestoreKey(a.Readable(), a.Digest()); r.Digest() != a.Digest() || r.IsZero() {
			t.Errorf("%+v comes back as %+v", a, r)
		}
	})
}
