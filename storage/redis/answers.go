package redis

import (
	"fmt"
	"slices"
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

// bundle returns one with the commands for those requests.
func (a *answers) bundle(open []int) *bundle {
	if b := a.several(open); b != nil {
		return b
	}
	return a.each(open)
}

// settleAll takes the answers of the commands of bundles.
func (a *answers) settleAll(bundles []*bundle) {
	for _, b := range bundles {
		for j, at := range b.at {
			if b.err != nil { // otherwise the commands may still be at work
				a.unknown(at, b.err)
				continue
			}
			val, err := b.cmds[j].(*goredis.Cmd).Result()
			switch {
			case b.many && err == nil:
				a.readMany(at, val)
			case b.many:
				a.unknown(at, err)
			default:
				if err := a.read(at[0], b.cmds[j].(*goredis.Cmd), val, err); err != nil {
					a.unknown(at, err)
				}
			}
		}
	}
}

// unknown notes that requests have failed with an error.
func (a *answers) unknown(at []int, err error) {
	why := a.explain(err)
	for _, i := range at {
		if !answered(err) {
			if a.lost++; a.lost == 1 {
				a.why = why
			}
			a.gaveUp = a.gaveUp || a.ended(err) != nil
		}
		a.fail(i, why)
	}
}

// each returns a bundle with a command for each of those requests.
func (a *answers) each(open []int) *bundle {
	const longest = 7 // arguments of a command
	args := make([]any, 0, longest*len(open))
	b := &bundle{script: a.op.script, cmds: make([]goredis.Cmder, 0, len(open)), at: make([][]int, 0, len(open))}
	for j, i := range open {
		r, from, key := &a.reqs[i], len(args), int8(scriptKey)
		if a.op == &acquire && !a.oldSet.Load() {
			args, key = a.setArgs(args, r), setKey
		} else {
			args = append(args, "evalsha", a.op.script.sha, "1", a.name(&r.Key))
			args = a.op.args(args, r)
		}
		b.cmds = append(b.cmds, newCmd(a.ctx, key, args[from:len(args):len(args)]...))
		b.at = append(b.at, open[j:j+1])
	}
	return b
}

// several returns a bundle in which each command is for many of those requests, or nil if there is no script for that. In a Cluster there is
// none, since its keys would have to be in one slot.
func (a *answers) several(open []int) *bundle {
	if a.op.many == nil || a.cluster != nil || len(open) < 2 {
		return nil
	}
	b := &bundle{script: a.op.many, many: true}
	for at := range slices.Chunk(open, manyKeys) {
		args := make([]any, 0, 3+4*len(at))
		args = append(args, "evalsha", a.op.many.sha, len(at))
		for _, i := range at {
			args = append(args, a.name(&a.reqs[i].Key))
		}
		for _, i := range at {
			args = a.op.args(args, &a.reqs[i])
		}
		b.cmds = append(b.cmds, newCmd(a.ctx, scriptKey, args...))
		b.at = append(b.at, at)
	}
	return b
}

// manyKeys is for how many keys a script runs at most, which holds up everybody else meanwhile.
const manyKeys = 64

// readMany takes the answers of requests from the value of their command.
func (a *answers) readMany(at []int, val any) {
	vals, ok := val.([]any)
	for j, i := range at {
		if !ok || len(vals) != len(at) {
			a.misread(i, val)
			continue
		}
		if err, ok := vals[j].(error); ok {
			a.fail(i, a.explain(err))
			continue
		}
		a.take(i, vals[j])
	}
}

func (a *answers) misread(i int, val any) {
	a.fail(i, fmt.Errorf("the script answered %T: is there a proxy between here and Redis?", val))
}

// read takes a request's answer from its command and what that returned, or returns the command's error.
func (a *answers) read(i int, cmd *goredis.Cmd, val any, err error) error {
	if isSet(cmd) {
		outcome, record, err := readSet(val, err)
		if err == nil {
			a.settle(i, outcome, record, -1, 0)
		}
		return err
	}
	if err == nil {
		a.take(i, val)
	}
	return err
}

// take takes a request's answer from what a script returned for it.
func (a *answers) take(i int, val any) {
	switch v := val.(type) {
	case int64:
		a.settle(i, rmqdedup.Outcome(v), "", -1, 0)
		return
	case []any:
		if len(v) == 4 {
			outcome, ok1 := v[0].(int64)
			record, ok2 := v[1].(string)
			pttl, ok3 := v[2].(int64)
			now, ok4 := v[3].(int64)
			if ok1 && ok2 && ok3 && ok4 {
				a.settle(i, rmqdedup.Outcome(outcome), record, pttl, now)
				return
			}
		}
	}
	a.misread(i, val)
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
