package redis

import (
	"context"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// A bundle is a number of commands that are sent in one pipeline, and for which waiting ends together: all of a call, or in a Cluster
// those of one node, so that a node that does not answer takes no other's answers with it.
type bundle struct {
	script *script         // what the commands run, or may have to
	cmds   []goredis.Cmder // each a *goredis.Cmd
	at     [][]int         // which requests of the call each is for
	many   bool            // each answers for all of its requests in an array

	// err is why nothing is known of any of the commands. They must not be looked at then.
	err error
}

// send runs the commands of a bundle and returns them in bundles that are settled, one way or the other.
func (c *call) send(b *bundle) []*bundle {
	if len(b.cmds) == 0 {
		return nil
	}
	if c.inline() && c.cluster == nil {
		c.run(b)
		return []*bundle{b}
	}
	bundles, err := c.byNode(b)
	if err != nil {
		b.err = err
		return []*bundle{b}
	}
	errs := c.each(len(bundles), func(i int) error {
		c.run(bundles[i])
		return nil
	})
	for i, b := range bundles {
		b.err = errs[i]
		if c.cluster != nil && (b.err != nil || b.lost()) {
			// Otherwise the client would go on asking a node that has been replaced for as long as its map of the slots is
			// deemed fresh, a minute.
			c.cluster.ReloadState(c.ctx)
		}
	}
	return bundles
}

// lost says whether a command failed without the server's having answered it.
func (b *bundle) lost() bool {
	return slices.ContainsFunc(b.cmds, func(cmd goredis.Cmder) bool {
		return cmd.Err() != nil && !answered(cmd.Err())
	})
}

// byNode splits a bundle by the nodes of a Cluster that its keys are on. That is a hint: go-redis follows a key that has moved.
func (c *call) byNode(b *bundle) ([]*bundle, error) {
	if c.cluster == nil || len(b.cmds) == 1 {
		return []*bundle{b}, nil
	}
	if !c.routed.Load() {
		// The first to ask waits for the client, which asks a node where the slots are.
		err := c.each(1, func(int) error {
			_, err := c.cluster.MasterForKey(c.ctx, nameOf(b.cmds[0]))
			return err
		})[0]
		if err != nil {
			return nil, err
		}
		c.routed.Store(true)
	}
	var bundles []*bundle
	of := make(map[*goredis.Client]*bundle, 8)
	for i, cmd := range b.cmds {
		node, err := c.cluster.MasterForKey(c.ctx, nameOf(cmd))
		if err != nil {
			return nil, err
		}
		part := of[node]
		if part == nil {
			part = &bundle{script: b.script, many: b.many}
			of[node] = part
			bundles = append(bundles, part)
		}
		part.cmds = append(part.cmds, cmd)
		part.at = append(part.at, b.at[i])
	}
	return bundles, nil
}

// run sends a bundle and waits for its answers, in as many round trips as it takes: one, unless a claim was found, or the
// server does not know the script, because it was restarted or flushed or is another one.
func (c *call) run(b *bundle) {
	c.exec(b.cmds)
	c.follow(b)
}

// runAll is run for several bundles, of which the first round trip is one.
func (c *call) runAll(bundles []*bundle) {
	var cmds []goredis.Cmder
	for _, b := range bundles {
		cmds = append(cmds, b.cmds...)
	}
	c.exec(cmds)
	for _, b := range bundles {
		c.follow(b)
	}
}

// follow makes the further round trips.
func (c *call) follow(b *bundle) {
	c.again(b, func(cmd *goredis.Cmd, _ bool) *goredis.Cmd { return c.claimByScript(cmd) })
	// The first is sent with the script's text, which makes it known for those behind it.
	c.again(b, func(cmd *goredis.Cmd, first bool) *goredis.Cmd { return c.withText(b.script, cmd, first) })
	// In a Cluster they may have gone elsewhere.
	c.again(b, func(cmd *goredis.Cmd, _ bool) *goredis.Cmd { return c.withText(b.script, cmd, true) })
}

// again sends what instead returns for each command, where that is not nil, and puts it in the command's place.
func (c *call) again(b *bundle, instead func(cmd *goredis.Cmd, first bool) *goredis.Cmd) {
	var cmds []goredis.Cmder
	var where []int
	for i, cmd := range b.cmds {
		if next := instead(cmd.(*goredis.Cmd), cmds == nil); next != nil {
			cmds = append(cmds, next)
			where = append(where, i)
		}
	}
	if cmds == nil {
		return
	}
	c.exec(cmds)
	for i, cmd := range cmds {
		b.cmds[where[i]] = cmd
	}
}

// withText returns a command again whose script the server did not know: with the text, or, where that is known from one before, without.
func (c *call) withText(sc *script, cmd *goredis.Cmd, text bool) *goredis.Cmd {
	if err := cmd.Err(); err == nil || isSet(cmd) || !goredis.HasErrorPrefix(err, "NOSCRIPT") {
		return nil
	}
	args := slices.Clone(cmd.Args())
	if text {
		args[0], args[1] = "eval", sc.text
	}
	return newCmd(c.ctx, scriptKey, args...)
}

// exec runs commands in one round trip. Each has an answer then, or an error.
func (c *call) exec(cmds []goredis.Cmder) {
	if len(cmds) == 1 {
		_ = c.client.Process(c.ctx, cmds[0])
		return
	}
	pipe := c.client.Pipeline()
	_ = pipe.BatchProcess(c.ctx, cmds...)
	_, _ = pipe.Exec(c.ctx)
}

// Where the keys of commands are.
const (
	setKey    = 1 // SET key …
	scriptKey = 3 // EVALSHA sha 1 key …
)

// newCmd returns a command whose key is at that position. Told so, the client need not ask a server.
func newCmd(ctx context.Context, key int8, args ...any) *goredis.Cmd {
	cmd := goredis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(key)
	cmd.SetStepCount(1)
	return cmd
}

// nameOf returns the key of a command that newCmd made.
func nameOf(cmd goredis.Cmder) string {
	at := scriptKey
	if isSet(cmd) {
		at = setKey
	}
	name, _ := cmd.Args()[at].(string)
	return name
}

func isSet(cmd goredis.Cmder) bool { return cmd.Args()[0] == "set" }
