package storagetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// likeValues are values that some database, collation, encoding, column or separator takes for one another. Each is
// another piece of work.
func likeValues() []string {
	long := strings.Repeat("x", 64<<10)
	values := []string{
		"", " ", "  ", "\t", "\n", "\r\n", "\x00", "\x00\x00", "\u200b", "\ufeff", "\ufffd",
		"order-1", "ORDER-1", "Order-1", "order-1 ", "order-1  ", " order-1", "order-1\t", "order-1\n", "order-1\r\n", "order-1\x00", "order-1\x00a", "\ufefforder-1",
		"order_1", "order%1", "order*1", "order?1", "order[1", "order\\1", "order'1", "order\"1", "order`1", "order;1", "order:1", "order{1}", "order{2}", "{order}1",
		"1", "01", "1.0", "1e0", "+1", "１", "null", "NULL", "nil", "true", "0", "-0",
		"e", "é", "e\u0301", "E", "É", "ss", "ß", "SS", "ẞ", "i", "I", "ı", "İ", "K", "\u212a", "k", "ﬁ", "fi", "ａ", "a", "à", "à", "ａ́",
		"👍", "👍🏽", "👍🏿", "👎", "👨‍👩‍👧", "👨👩👧", "☺", "☺\ufe0f", "😀", "😁", "𝒳", "x",
		"\xff", "\xfe", "\xc3", "\xc3\x28", "\xed\xa0\x80", "\xf0\x28\x8c\xbc", "order-\xff", "order-\xfe", "order-\ufffd",
	}
	for _, n := range []int{64, 127, 128, 190, 191, 192, 254, 255, 256, 511, 512, 766, 767, 768, 1023, 1024, 1025, 3072, 4096, 65535} {
		values = append(values, long[:n])
	}
	// Alike but for one byte, at the end, at the start and in the middle; and but for the case of it.
	for _, n := range []int{255, 1024, 64 << 10} {
		values = append(values, long[:n-1]+"y", "y"+long[:n-1], long[:n/2]+"y"+long[:n-n/2-1], long[:n-1]+"X", long[:n-1]+" ")
	}
	return append(values, long)
}

// likeKeys are keys whose parts are alike: they differ in where one part ends, in a part that is empty or missing, in
// kind, in scope.
func likeKeys() []rmqdedup.Key {
	const business, id = rmqdedup.BusinessKey, rmqdedup.MessageIDKey
	const tag, topic, group = rmqdedup.ScopeTag, rmqdedup.ScopeTopic, rmqdedup.ScopeGroup
	keys := []rmqdedup.Key{
		rmqdedup.NewKey(id, tag, "g", "t", "a", "b"),
		rmqdedup.NewKey(id, tag, "g", "t", "a", "b", 0),
		rmqdedup.NewKey(id, tag, "g", "t", "a", "b", 0, 0),
		rmqdedup.NewKey(business, topic, "g", "t", "a", "b"),
		rmqdedup.NewKey(business, group, "g", "t", "a", "b"),
		rmqdedup.NewKey(business, group, "G", "t", "a", "b"),
		rmqdedup.NewKey(business, group, "g ", "t", "a", "b"),
		rmqdedup.NewKey(business, tag, "g", "t", "", "b"),
		rmqdedup.NewKey(business, tag, "g", "", "", "b"),
	}
	for _, sep := range []string{"", ":", "|", "/", "%", "\x00", "\xff", "::", " "} {
		keys = append(keys,
			rmqdedup.NewKey(business, tag, "g", "t", "a"+sep+"b", "c"),
			rmqdedup.NewKey(business, tag, "g", "t", "a", "b"+sep+"c"),
			rmqdedup.NewKey(business, tag, "g", "t"+sep+"a", "b", "c"),
			rmqdedup.NewKey(business, tag, "g"+sep+"t", "a", "b", "c"),
			rmqdedup.NewKey(business, tag, "g", "t", "a"+sep, "b"+sep+"d"),
		)
	}
	return keys
}

// checkLikeKeys claims keys that look alike, all of which are distinct, each for another owner. Cases 1, 2 and 7.
func checkLikeKeys(f *fixture) {
	var reqs []rmqdedup.Request
	seen := make(map[rmqdedup.Key]bool)
	add := func(k rmqdedup.Key) {
		if !seen[k] {
			reqs = append(reqs, request(k, rmqdedup.NewOwner()))
		}
		seen[k] = true
	}
	for _, v := range likeValues() {
		add(key(v))
	}
	for _, k := range likeKeys() {
		add(k)
	}
	f.wantEach("acquire of one of many keys that look alike", rmqdedup.OpAcquire, reqs, rmqdedup.Claimed)

	// Each holds its own claim, and what is done to one leaves its neighbours alone.
	f.wantOwners(reqs)
	var completed, released []rmqdedup.Request
	for i, q := range reqs {
		if i%2 == 0 {
			completed = append(completed, q)
		} else {
			released = append(released, q)
		}
	}
	f.wantEach("complete", rmqdedup.OpComplete, completed, rmqdedup.Applied)
	f.wantEach("complete, then acquire", rmqdedup.OpAcquire, completed, rmqdedup.Done)
	f.wantEach("acquire again, beside what is DONE", rmqdedup.OpAcquire, released, rmqdedup.Claimed)
	f.wantEach("release", rmqdedup.OpRelease, released, rmqdedup.Applied)
	f.wantEach("release, then lookup", rmqdedup.OpLookup, released, rmqdedup.Absent)
	f.wantOwners(completed)
}

// wantEach is want that goes on after a failure, and tells keys apart that print alike.
func (f *fixture) wantEach(what string, op rmqdedup.Op, reqs []rmqdedup.Request, outcome rmqdedup.Outcome) {
	f.Helper()
	for i, a := range f.do(op, reqs...) {
		if a.Outcome != outcome {
			f.Errorf("%s: %s: %s; want %v", what, shorten(reqs[i].Key), describe(a), outcome)
		}
	}
}

// wantOwners looks that each key's record is the one of the request.
func (f *fixture) wantOwners(reqs []rmqdedup.Request) {
	f.Helper()
	for i, a := range f.do(rmqdedup.OpLookup, reqs...) {
		q, r := reqs[i], a.Record
		if r == nil || r.Owner != q.Owner || r.MessageID != q.MessageID {
			f.Errorf("lookup of %s: %s; want the record of %v", shorten(q.Key), describe(a), q.Owner)
			continue
		}
		if problem := f.checkKey(r.Key, q.Key); problem != "" {
			f.Errorf("lookup of %s: %.300s", shorten(q.Key), problem)
		}
	}
}

func shorten(k rmqdedup.Key) string {
	return fmt.Sprintf("%.60s of %d bytes", fmt.Sprintf("%+q", parts(k)), len(k.Value))
}

// checkMessages sees what records keep of messages whose figures are at the edge of their types.
func checkMessages(f *fixture) {
	var reqs []rmqdedup.Request
	add := func(id string, attempt int, fingerprint uint64) {
		q := request(f.newKey(), rmqdedup.NewOwner())
		q.MessageID, q.Attempt, q.Fingerprint = id, attempt, fingerprint
		reqs = append(reqs, q)
	}
	const id = "7F00000100002A9F0000000000000001"
	for _, id := range []string{"", id, strings.ToLower(id), id + " ", "a:b|c", "null", "0", "é", "e\u0301", "👍", strings.Repeat("A", 64)} {
		add(id, 0, 1)
	}
	for _, attempt := range []int{0, 1, 15, 16, 127, 128, 255, 256, 65536, math.MaxInt32} {
		add(id, attempt, 1)
	}
	for _, fingerprint := range []uint64{0, 1, 1<<53 - 1, 1<<53 + 1, math.MaxInt64, 1 << 63, math.MaxUint64} {
		add(id, 0, fingerprint)
	}
	keeps := func(what string) {
		f.Helper()
		for i, a := range f.do(rmqdedup.OpLookup, reqs...) {
			q, r := reqs[i], a.Record
			if r == nil || r.MessageID != q.MessageID || r.Attempt != q.Attempt || r.Fingerprint != q.Fingerprint {
				f.Errorf("%s keeps %+v; want message %+q, attempt %d, fingerprint %d", what, r, q.MessageID, q.Attempt, q.Fingerprint)
			}
		}
	}
	f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, reqs...)
	keeps("a claim")
	f.want(rmqdedup.Applied, rmqdedup.OpComplete, reqs...)
	keeps("DONE")
}
