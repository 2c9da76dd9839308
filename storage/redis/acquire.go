package redis

import (
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A key that nobody has, which most are, is claimed by a SET with NX and GET, for which the server needs a quarter of the time that a script
// takes it, and which answers with the record where there is one. If that says DONE, all is told in one round trip. If it is a
// claim, it takes the script to judge it.
//
// Servers before Redis 7.0 do not know this SET. They say so, and have the script do it all from then on.

// setArgs appends the command that claims a key which nobody has.
func (c *call) setArgs(args []any, r *rmqdedup.Request) []any {
	return append(args, "set", c.name(&r.Key), claim(r), "nx", "get", "px", lifetime(r))
}

// claimByScript returns the script's command to follow a SET that did not settle it, and nil after any other.
func (c *call) claimByScript(cmd *goredis.Cmd) *goredis.Cmd {
	if !isSet(cmd) {
		return nil
	}
	val, err := cmd.Result()
	switch {
	case errors.Is(err, goredis.Nil): // claimed
		return nil
	case err == nil:
		if record, ok := val.(string); ok && isDone(record) {
			return nil
		}
	case goredis.HasErrorPrefix(err, "syntax error") || goredis.HasErrorPrefix(err, "ERR syntax error"):
		c.oldSet.Store(true)
	case goredis.IsOOMError(err): // the script can still tell what is done, or claimed
	default:
		return nil
	}
	args := cmd.Args()
	record, _ := args[2].(string)
	return newCmd(c.ctx, scriptKey, "evalsha", acquireScript.sha, "1", args[setKey], record[ownerAt:numberAt], args[6], record[ownerAt:])
}

// readSet returns what a SET was answered, for one that was not followed by a script: an outcome, with the record if it is Done.
func readSet(val any, err error) (outcome rmqdedup.Outcome, record string, _ error) {
	if errors.Is(err, goredis.Nil) {
		return rmqdedup.Claimed, "", nil
	}
	record, _ = val.(string)
	return rmqdedup.Done, record, err
}
