package redis

import (
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// answers collects those of one call.
type answers struct {
	*call
	op   *operation
	reqs []rmqdedup.Request
	all  []rmqdedup.Answer

	lost int   // requests that nothing is known of
	why  error // the first one's reason
}

func (a *answers) fail(i int, err error) {
	a.all[i] = rmqdedup.Answer{Err: fmt.Errorf("storage/redis: %s %s: %w", a.op.name, a.name(&a.reqs[i].Key), err)}
}

// collect sends a bundle and gives each answer to read, the errors that came instead of one to fail, unless read wants those
// of the server: it returns whether it has dealt with one.
func (a *answers) collect(b *bundle, read func(i int, val any, err error) bool) {
	for _, b := range a.send(b) {
		for j, cmd := range b.cmds {
			err := b.err
			var val any
			if err == nil {
				val, err = cmd.(*goredis.Cmd).Result()
			}
			i := b.at[j]
			if (err == nil || answered(err)) && read(i, val, err) {
				continue
			}
			lost := !answered(err)
			err = a.explain(err)
			if lost {
				if a.lost++; a.lost == 1 {
					a.why = err
				}
			}
			a.fail(i, err)
		}
	}
}

// set tries to claim the keys of those requests with a command alone, which costs the server a quarter of what a script does, and tells
// what is done in the same round trip. It returns the requests that it could not settle: those that found a claim.
func (a *answers) set(open []int) (left []int) {
	b := newBundle(nil, len(open))
	for _, i := range open {
		r := &a.reqs[i]
		b.add(newCmd(a.ctx, 1, "set", a.name(&r.Key), claim(r), "nx", "get", "px", lifetime(r)), i)
	}
	a.collect(b, func(i int, val any, err error) bool {
		switch {
		case errors.Is(err, goredis.Nil):
			a.all[i] = rmqdedup.Answer{Outcome: rmqdedup.Claimed}
			return true
		case goredis.HasErrorPrefix(err, "syntax error") || goredis.HasErrorPrefix(err, "ERR syntax error"):
			a.oldSet.Store(true)
			left = append(left, i)
			return true
		case goredis.IsOOMError(err):
			left = append(left, i) // the script can still tell what is done, or claimed
			return true
		case err != nil:
			return false
		}
		record, _ := val.(string)
		if len(record) < restAt || record[0] != format || record[1] != kindDone {
			left = append(left, i) // the script has the last word on what is no record at all, too
			return true
		}
		a.settle(i, rmqdedup.Done, record, -1, 0)
		return true
	})
	return left
}

// run runs the operation's script for those requests.
func (a *answers) run(open []int) {
	const head = 4
	size := head + 3
	args := make([]any, 0, len(open)*size)
	b := newBundle(a.op.script, len(open))
	for _, i := range open {
		r := &a.reqs[i]
		from := len(args)
		args = append(args, "evalsha", a.op.script.sha, "1", a.name(&r.Key))
		args = a.op.args(args, r)
		b.add(newCmd(a.ctx, 3, args[from:len(args):len(args)]...), i)
	}
	a.collect(b, func(i int, val any, err error) bool {
		if err != nil {
			return false
		}
		switch v := val.(type) {
		case int64:
			a.all[i] = rmqdedup.Answer{Outcome: rmqdedup.Outcome(v)}
			return true
		case []any:
			if len(v) == 4 {
				outcome, ok1 := v[0].(int64)
				record, ok2 := v[1].(string)
				pttl, ok3 := v[2].(int64)
				now, ok4 := v[3].(int64)
				if ok1 && ok2 && ok3 && ok4 {
					a.settle(i, rmqdedup.Outcome(outcome), record, pttl, now)
					return true
				}
			}
		}
		a.fail(i, fmt.Errorf("the script answered %T: is there a proxy between here and Redis?", val))
		return true
	})
}

// settle answers a request with the record that was found, the time for which its key would have lived on, and the server's
// time, both in milliseconds.
func (a *answers) settle(i int, outcome rmqdedup.Outcome, record string, pttl, now int64) {
	r, err := decode(record)
	if err != nil {
		a.fail(i, err)
		return
	}
	if a.op.parts {
		key := a.reqs[i].Key
		r.Key.Group = key.Group
		r.Key = rmqdedup.RestoreKey(r.Key, key.Digest())
	} else {
		r.Key = rmqdedup.Key{}
	}
	answer := rmqdedup.Answer{Outcome: outcome, Record: r}
	left := pttl
	if !r.Done {
		left -= number(record[numberAt:])
	}
	if pttl >= 0 {
		r.Until = time.UnixMilli(now + left)
	}
	if outcome == rmqdedup.InFlight {
		answer.Left = duration(left)
	}
	a.all[i] = answer
}
