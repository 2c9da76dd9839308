package redis

import (
	"context"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// A bundle is a number of commands that are sent in one pipeline, and for which waiting ends together: all of a call, or in a Cluster
// those of one node, so that a node that does not answer takes no other's answers with it.
type bundle struct {
	script *script         // whose EVALSHA the commands are; nil for others
	cmds   []goredis.Cmder // each a *goredis.Cmd
	at     []int           // which request of the call each is for

	// err is why nothing is known of any of the commands. They must not be looked at then.
	err error
}

func newBundle(sc *script, size int) *bundle {
	return &bundle{script: sc, cmds: make([]goredis.Cmder, 0, size), at: make([]int, 0, size)}
}

func (b *bundle) add(cmd goredis.Cmder, at int) {
	b.cmds = append(b.cmds, cmd)
	b.at = append(b.at, at)
}

// send runs the commands of a bundle and returns them in bundles that are settled, one way or the other.
func (c *call) send(b *bundle) []*bundle {
	if len(b.cmds) == 0 {
		return nil
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
		if of[node] == nil {
			of[node] = newBundle(b.script, len(b.cmds)-i)
			bundles = append(bundles, of[node])
		}
		of[node].add(cmd, b.at[i])
	}
	return bundles, nil
}

// run sends a bundle and waits for its answers. Where the server does not know the script, because it was restarted or flushed or
// is another one, those commands are sent again: the first with the text, which makes it known for the others behind it, and
// if the others went elsewhere, all with it.
func (c *call) run(b *bundle) {
	c.exec(b.cmds)
	for round := 0; round < 2 && b.script != nil; round++ {
		var again []goredis.Cmder
		var where []int
		for i, cmd := range b.cmds {
			if !goredis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
				continue
			}
			args := slices.Clone(cmd.Args())
			if round == 1 || again == nil {
				args[0], args[1] = "eval", b.script.text
			}
			again = append(again, newCmd(c.ctx, 3, args...))
			where = append(where, i)
		}
		if again == nil {
			return
		}
		c.exec(again)
		for i, cmd := range again {
			b.cmds[where[i]] = cmd
		}
	}
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

// newCmd returns a command whose key is at that position. Told so, the client need not ask a server.
func newCmd(ctx context.Context, key int8, args ...any) *goredis.Cmd {
	cmd := goredis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(key)
	cmd.SetStepCount(1)
	return cmd
}

// nameOf returns the key of a command that newCmd made.
func nameOf(cmd goredis.Cmder) string {
	args := cmd.Args()
	at := 3
	if args[0] == "set" {
		at = 1
	}
	name, _ := args[at].(string)
	return name
}
