package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/redis"
)

// What this release cannot read is an error for its key alone, whatever is asked, and stays as it is.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t))
	claimed := request("claimed")
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, claimed)
	record := srv.do(t, "get", redisName(claimed)).(string)

	values := map[string]string{
		"a newer format":                 "2" + record[1:],
		"an unknown kind":                "1X" + record[2:],
		"no record at all":               "somebody else's, and as long as a record is",
		"nothing":                        "",
		"a record that is cut":           record[:20],
		"a binary zero":                  "\x00" + record[1:],
		"a magic character of a pattern": "1%" + record[2:],
	}
	for what, value := range values {
		t.Run(what, func(t *testing.T) {
			reqs := []rmqdedup.Request{request("before " + what), request(what), request("behind " + what)}
			name := redisName(reqs[1])
			srv.do(t, "set", name, value, "px", 3600_000)
			for _, op := range allOps {
				answers := do(t, s, op, reqs...)
				if answers[0].Err != nil || answers[2].Err != nil {
					t.Errorf("%v: its neighbours fail: %v, %v", op, answers[0].Err, answers[2].Err)
				}
				if err := answers[1].Err; err == nil || answers[1].Outcome != 0 || !strings.Contains(err.Error(), "format") || !strings.Contains(err.Error(), name) {
					t.Errorf("%v: %v, error %v; want an error that speaks of the format and names the key", op, answers[1].Outcome, err)
				}
				if got := srv.do(t, "get", name); got != value {
					t.Fatalf("%v changed it to %q", op, got)
				}
			}
		})
	}

	t.Run("another type", func(t *testing.T) {
		reqs := []rmqdedup.Request{request("before"), request("a list"), request("behind")}
		srv.do(t, "rpush", redisName(reqs[1]), "element")
		for _, op := range allOps {
			answers := do(t, s, op, reqs...)
			if answers[0].Err != nil || answers[2].Err != nil {
				t.Errorf("%v: its neighbours fail: %v, %v", op, answers[0].Err, answers[2].Err)
			}
			if err := answers[1].Err; err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("%v: error %v; want WRONGTYPE", op, err)
			}
			if got := srv.do(t, "llen", redisName(reqs[1])); got != int64(1) {
				t.Fatalf("%v changed it", op)
			}
		}
	})
}

// What a later release adds behind a record is kept, and does not disturb.
func TestLongerRecords(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t))
	r := request("key")
	name := redisName(r)
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
	srv.do(t, "append", name, "\x00more")

	want(t, s, rmqdedup.InFlight, rmqdedup.OpAcquire, strangers(r)...)
	r.Grace++ // the record is rewritten
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, r)
	want(t, s, rmqdedup.Applied, rmqdedup.OpAbandon, r)
	found := want(t, s, rmqdedup.Orphan, rmqdedup.OpLookup, r)[0].Record
	if found.MessageID != r.MessageID || found.Key != r.Key {
		t.Errorf("it is read as %+v", found)
	}
	if got := srv.do(t, "get", name).(string); !strings.HasSuffix(got, "\x00more") {
		t.Errorf("what a later release added is gone: %q", got)
	}
}

// A record that somebody has made to stay for ever does not claim its key for ever.
func TestPersistedClaim(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t))
	r := request("key")
	want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
	srv.do(t, "persist", redisName(r))
	want(t, s, rmqdedup.Orphan, rmqdedup.OpLookup, r)
	want(t, s, rmqdedup.TakenOver, rmqdedup.OpAcquire, strangers(r)...)
}

// A deadline that is now has passed; one a millisecond ahead has not. The key is given its time by the script that then judges it, so that no
// time is between.
func TestDeadlineToTheMillisecond(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t))
	for _, grace := range []time.Duration{0, time.Millisecond, time.Hour} {
		r := request("key")
		r.Grace = grace
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
		name := redisName(r)
		// judge returns the outcome, and the time left beyond the grace, of a claim whose deadline is that many milliseconds ahead.
		judge := func(ahead int64) (rmqdedup.Outcome, int64) {
			script := "redis.call('PEXPIRE', KEYS[1], ARGV[9])\n" + redis.Script("lookup")
			reply := srv.do(t, "eval", script, 1, name, "", "", "", "", "", "", "", "", grace.Milliseconds()+ahead)
			parts, ok := reply.([]any)
			if !ok {
				return rmqdedup.Outcome(reply.(int64)), 0
			}
			return rmqdedup.Outcome(parts[0].(int64)), parts[2].(int64) - grace.Milliseconds()
		}
		if grace > 0 {
			for range 100 {
				switch got, left := judge(0); got {
				case rmqdedup.Orphan:
				case rmqdedup.Absent: // since the last time the grace has passed
					want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
				default:
					t.Fatalf("grace %v: a deadline that is now: %v, %d ms left; want an orphan", grace, got, left)
				}
			}
		}
		seen := false
		for range 100 { // the millisecond may pass meanwhile
			got, left := judge(1)
			seen = seen || got == rmqdedup.InFlight && left == 1
			if got == rmqdedup.InFlight && left != 1 {
				t.Fatalf("grace %v: a deadline a millisecond ahead: in flight, %d ms left", grace, left)
			}
			if got == rmqdedup.Absent { // no grace, and the millisecond has passed
				want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
			}
		}
		if !seen {
			t.Errorf("grace %v: a deadline a millisecond ahead was never in flight", grace)
		}
		do(t, s, rmqdedup.OpRelease, r)
	}
}

// No length of time is too long, and none that a record cannot say.
func TestLongestTimes(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t))
	const longest = time.Duration(1<<63 - 1)
	r := request("key")
	r.Lease, r.Grace, r.Retention = longest, longest, longest
	for _, lease := range []time.Duration{longest, longest - 1, 1500 * time.Microsecond} {
		r.Lease = lease
		want(t, s, rmqdedup.Claimed, rmqdedup.OpAcquire, r)
		want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, r)
	}
	r.Lease = longest
	want(t, s, rmqdedup.Applied, rmqdedup.OpRenew, r)
	if a := want(t, s, rmqdedup.InFlight, rmqdedup.OpLookup, r)[0]; a.Left < longest-time.Minute || a.Record.Grace < longest-time.Second {
		t.Errorf("%v left, and a grace of %v", a.Left, a.Record.Grace)
	}
	want(t, s, rmqdedup.Applied, rmqdedup.OpComplete, r)
	want(t, s, rmqdedup.Done, rmqdedup.OpAcquire, strangers(r)...)
}
