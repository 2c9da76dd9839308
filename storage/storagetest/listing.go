package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

func (f *fixture) lister() rmqdedup.Lister {
	f.Helper()
	s, ok := rmqdedup.Find[rmqdedup.Lister](f.store)
	if !ok {
		f.Skip("the store is no Lister")
	}
	return s
}

// list returns a group's records by the digest of their keys. A record may be seen more than once.
func list(ctx context.Context, s rmqdedup.Lister, group string) (map[[32]byte]rmqdedup.Record, error) {
	records := make(map[[32]byte]rmqdedup.Record)
	for r, err := range s.List(ctx, group) {
		if err != nil {
			return records, err
		}
		records[r.Key.Digest()] = r
	}
	return records, nil
}

// checkList lists groups whose names are alike: prefixes of one another, patterns that match one another, and what
// separates keys.
func checkList(f *fixture) {
	s := f.lister()
	groups := []string{
		"g", "g1", "g12", "g-", "g:", "g:1", "gg", "G", "G1", "g ", " g", "g*", "g?", "*", "?", "[g]", "g[1]", "g[12]", "[^g]", "g\\1", "g\\*", "g%", "g_", "_", "%",
		"ns%g", "ns%g1", "{g}", "{g}1", "g{1}", "g/1", "g|1", "g'1", "gé", "ge\u0301",
	}
	// In each group a claim, an orphan and DONE, of keys that are the same but for the group.
	want := make(map[string][]rmqdedup.Request)
	var claims, orphans, done []rmqdedup.Request
	for _, g := range groups {
		for i, of := range []*[]rmqdedup.Request{&claims, &orphans, &done} {
			q := request(rmqdedup.NewKey(rmqdedup.BusinessKey, rmqdedup.ScopeTag, g, "orders", "paid", fmt.Sprint("order ", i)), rmqdedup.NewOwner())
			*of = append(*of, q)
			want[g] = append(want[g], q)
		}
	}
	isLive.make(f, claims)
	isOrphan.make(f, orphans)
	isDone.make(f, done)
	for _, g := range groups {
		got, err := list(f.ctx, s, g)
		if err != nil {
			f.Errorf("list of group %q: %v", g, err)
		}
		if len(got) != len(want[g]) {
			f.Errorf("list of group %q: %d records; want %d", g, len(got), len(want[g]))
		}
		for i, q := range want[g] {
			r, ok := got[q.Key.Digest()]
			if !ok || r.Owner != q.Owner || r.MessageID != q.MessageID || r.Fingerprint != q.Fingerprint || r.Done != (i == 2) {
				f.Errorf("list of group %q: %+v; want the record of %v, DONE: %t", g, r, q.Owner, i == 2)
				continue
			}
			if problem := f.checkKey(r.Key, q.Key); problem != "" {
				f.Errorf("list of group %q: %s", g, problem)
			}
		}
	}
	for _, g := range []string{"", "nobody", "g1*", "g\x00"} {
		if got, err := list(f.ctx, s, g); err != nil || len(got) != 0 {
			f.Errorf("list of group %q, which has nothing: %d records, error %v", g, len(got), err)
		}
	}
}

// checkListMany lists a group of more records than fit into one reply, stops in the middle, uses the store meanwhile,
// and ends its context.
func checkListMany(f *fixture) {
	s := f.lister()
	const n = 3000
	reqs := f.new(n)
	for i := range 3 {
		f.want(rmqdedup.Claimed, rmqdedup.OpAcquire, reqs[i*n/3:(i+1)*n/3]...)
	}
	got, err := list(f.ctx, s, group)
	if err != nil || len(got) != n {
		f.Errorf("list of %d records: %d, error %v", n, len(got), err)
	}
	for _, q := range reqs {
		if r := got[q.Key.Digest()]; r.Owner != q.Owner {
			f.Errorf("list of %d records: %v is missing, or another's", n, q.Key)
			break
		}
	}

	seen := 0
	for r, err := range s.List(f.ctx, group) {
		if err != nil {
			f.Fatalf("list: %v", err)
		}
		f.want(rmqdedup.Applied, rmqdedup.OpRelease, rmqdedup.Request{Key: r.Key, Owner: r.Owner})
		if seen++; seen == 10 {
			break
		}
	}

	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	seen, err = 0, nil
	for _, e := range s.List(ctx, group) {
		if err != nil {
			f.Errorf("list went on after an error")
		}
		if err = e; err == nil {
			seen++
		}
		cancel() // a listing that is cut short without an error would be taken for a whole one
	}
	if !errors.Is(err, context.Canceled) {
		f.Errorf("list whose context ends: %d of %d records, error %v; want one that wraps %v", seen, n, err, context.Canceled)
	}
}
