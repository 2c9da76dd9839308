package redis

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/internal/millis"
)

// What is written is read again, whatever bytes it is of; and nothing that can be read makes it panic.
func FuzzRecord(f *testing.F) {
	f.Add("message", 3, uint64(5), "topic", "tag", "value", int64(time.Hour), []byte("1C"))
	f.Add("", 0, uint64(0), "", "", "", int64(0), []byte(nil))
	f.Add("\x00\xff", math.MaxInt, uint64(math.MaxUint64), "\xc3\x28", "\x00", strings.Repeat("v", 2000), int64(math.MaxInt64), []byte("1D\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, id string, attempt int, fingerprint uint64, topic, tag, value string, grace int64, foreign []byte) {
		r := rmqdedup.Request{
			Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "group", topic, tag, value),
			Owner: rmqdedup.NewOwner(), Grace: time.Duration(max(grace, 0)),
			MessageID: id, Attempt: attempt, Fingerprint: fingerprint,
		}
		record := claim(&r)
		got, err := decode(record)
		if err != nil {
			t.Fatal(err)
		}
		parts := r.Key.Readable()
		want := rmqdedup.Record{
			Key:   rmqdedup.Key{Kind: parts.Kind, Topic: parts.Topic, Tag: parts.Tag, Value: parts.Value},
			Owner: r.Owner, Grace: millis.Duration(millis.Of(r.Grace)),
			MessageID: id, Attempt: min(max(attempt, 0), math.MaxInt32), Fingerprint: fingerprint,
		}
		if *got != want {
			t.Fatalf("read as %+v; want %+v", *got, want)
		}
		for cut := range record {
			if r, err := decode(record[:cut]); err == nil {
				t.Fatalf("%d of %d bytes are read as %+v", cut, len(record), r)
			}
		}
		_, _ = decode(string(foreign))
		_, _ = decode(record[:restAt] + string(foreign))
	})
}

// Different groups have different names, none of which can be mistaken for another key, a pattern, or a hash tag.
func FuzzGroup(f *testing.F) {
	f.Add("group", "gr=6Fup")
	f.Add("ns%group", "a:b")
	f.Add("", "==")
	f.Add(strings.Repeat("x", 300), strings.Repeat("x", 299)+":")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := escapeGroup(a), escapeGroup(b)
		if (a == b) != (x == y) {
			t.Fatalf("%q and %q are %q and %q", a, b, x, y)
		}
		if len(x) > maxGroup || strings.ContainsAny(x, "*?[]^\\{}: \x00") {
			t.Fatalf("%q is %q", a, x)
		}
		for i := range len(x) {
			if x[i] <= ' ' || x[i] >= 0x7f {
				t.Fatalf("%q is %q", a, x)
			}
		}
	})
}

func TestMillisecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Microsecond: 2, math.MaxInt64: math.MaxInt64/1_000_000 + 1,
	} {
		if got := millis.Of(d); got != want {
			t.Errorf("%v is %d ms; want %d", d, got, want)
		}
	}
}

// The format is fixed: a record that an earlier release wrote must be read by every later one. If this fails, the format has to be another.
func TestFormatIsFixed(t *testing.T) {
	r := rmqdedup.Request{
		Key:   rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, "ns%group", "orders", "paid", "17"),
		Owner: rmqdedup.Owner{1, 2, 3}, Lease: time.Minute, Grace: 70 * time.Second, Retention: time.Hour,
		MessageID: "7F", Attempt: 300, Fingerprint: 0x0102030405060708,
	}
	s := &Store{prefix: DefaultPrefix}
	if got, want := s.name(&r.Key), "rmqdedup:ns%group:Yo7qeb1toA9UcD6uZ3dJ1B8BqwbyRkYxegslBrD0_Lc"; got != want {
		t.Errorf("the name is %s; want %s", got, want)
	}
	const want = "1C" + "\x01\x02\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x01\x11\x70" +
		"\x01\x02\x03\x04\x05\x06\x07\x08" + "\x01" + "\xac\x02" + "\x027F" + "\x06orders" + "\x04paid" + "\x0217"
	if got := claim(&r); got != want {
		t.Errorf("the record is %q; want %q", got, want)
	}
}

// The scripts answer in the numbers of rmqdedup.Outcome.
func TestScriptsKnowTheOutcomes(t *testing.T) {
	names := []string{"CLAIMED", "TAKEN_OVER", "IN_FLIGHT", "ORPHAN", "DONE", "ABSENT", "APPLIED", "LOST"}
	outcomes := []rmqdedup.Outcome{
		rmqdedup.Claimed, rmqdedup.TakenOver, rmqdedup.InFlight, rmqdedup.Orphan, rmqdedup.Done, rmqdedup.Absent, rmqdedup.Applied, rmqdedup.Lost,
	}
	numbers := make([]string, len(outcomes))
	for i, o := range outcomes {
		numbers[i] = string('0' + rune(o))
	}
	line := "local " + strings.Join(names, ", ") + " = " + strings.Join(numbers, ", ")
	if !strings.Contains(lookupScript.text, line) {
		t.Errorf("record.lua has no line %q", line)
	}
}
