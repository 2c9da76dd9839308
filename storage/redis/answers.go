package redis

import (
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/internal/millis"
)

// answers collects those of one call.
type answers struct {
	*call
	op   *operation
	reqs []rmqdedup.Request
	all  []rmqdedup.Answer

	lost   int   // requests that nothing is known of
	why    error // the first one's reason
	gaveUp bool  // the caller's context ended before the answers were there
}

func (a *answers) fail(i int, err error) {
	a.all[i] = rmqdedup.Answer{Err: fmt.Errorf("storage/redis: %s %s: %w", a.op.name, a.name(&a.reqs[i].Key), err)}
}

// ask sends those requests and takes their answers.
func (a *answers) ask(open []int) {
	const longest = 7 // arguments of a command
	args := make([]any, 0, longest*len(open))
	b := &bundle{script: a.op.script, cmds: make([]goredis.Cmder, 0, len(open)), at: open}
	for _, i := range open {
		r, from, key := &a.reqs[i], len(args), int8(scriptKey)
		if a.op == &acquire && !a.oldSet.Load() {
			args, key = a.setArgs(args, r), setKey
		} else {
			args = append(args, "evalsha", a.op.script.sha, "1", a.name(&r.Key))
			args = a.op.args(args, r)
		}
		b.cmds = append(b.cmds, newCmd(a.ctx, key, args[from:len(args):len(args)]...))
	}
	for _, b := range a.send(b) {
		for j, i := range b.at {
			err := b.err
			if err == nil { // otherwise the commands may still be at work
				err = a.read(i, b.cmds[j].(*goredis.Cmd))
			}
			if err == nil {
				continue
			}
			why := a.explain(err)
			if !answered(err) {
				if a.lost++; a.lost == 1 {
					a.why = why
				}
				a.gaveUp = a.gaveUp || a.ended(err) != nil
			}
			a.fail(i, why)
		}
	}
}

// read takes a request's answer from its command, or returns the command's error.
func (a *answers) read(i int, cmd *goredis.Cmd) error {
	val, err := cmd.Result()
	if isSet(cmd) {
		outcome, record, err := readSet(val, err)
		if err == nil {
			a.settle(i, outcome, record, -1, 0)
		}
		return err
	}
	if err != nil {
		return err
	}
	switch v := val.(type) {
	case int64:
		a.settle(i, rmqdedup.Outcome(v), "", -1, 0)
		return nil
	case []any:
		if len(v) == 4 {
			outcome, ok1 := v[0].(int64)
			record, ok2 := v[1].(string)
			pttl, ok3 := v[2].(int64)
			now, ok4 := v[3].(int64)
			if ok1 && ok2 && ok3 && ok4 {
				a.settle(i, rmqdedup.Outcome(outcome), record, pttl, now)
				return nil
			}
		}
	}
	a.fail(i, fmt.Errorf("the script answered %T: is there a proxy between here and Redis?", val))
	return nil
}

// settle answers a request, and with the record that was found, if any: with the time for which its key would have lived on and the
// server's time, both in milliseconds.
func (a *answers) settle(i int, outcome rmqdedup.Outcome, record string, pttl, now int64) {
	a.all[i] = rmqdedup.Answer{Outcome: outcome}
	if record == "" {
		return
	}
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
		r.Key = rmqdedup.Key{} // the caller has it
	}
	a.all[i].Record = r
	left := pttl
	if !r.Done {
		left -= number(record[numberAt:])
	}
	if pttl >= 0 {
		r.Until = time.UnixMilli(now + left)
	}
	if outcome == rmqdedup.InFlight {
		a.all[i].Left = millis.Duration(left)
	}
}
