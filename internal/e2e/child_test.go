package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage"
)

// A child is a member in a process of its own, which can be killed.
type child struct {
	s      *story
	name   string
	cmd    *exec.Cmd
	reader sync.WaitGroup
	once   sync.Once
}

// childVariable tells the test binary that it is to be a child, and which.
const childVariable = "RMQDEDUP_E2E_CHILD"

type childCast struct {
	NameServer, Instance, Group, Topic, Store string
	Mode                                      rmqdedup.Mode
	Levels                                    []time.Duration
}

// A childEntry is what a child tells of an entry in its journal: one line of its output.
type childEntry struct {
	What, Name, Detail string
	Attempt            int32
}

// What the names of messages begin with over which a child is to be killed.
const (
	fatal  = "fatal-"  // its handler never ends
	doomed = "doomed-" // its handler succeeds, and DONE is never written
)

// spawn starts a member in another process. Its handler succeeds, but for fatal messages.
func (s *story) spawn(name string) *child {
	s.Helper()
	if strings.HasPrefix(s.url, "memory:") {
		testenv.Require(s.T, "RMQDEDUP_REDIS") // a store that two processes can share
	}
	cast, err := json.Marshal(childCast{
		s.broker.nameServer(), s.instance(name), s.group, s.topic, s.url, s.set.mode, s.broker.delayLevels(),
	})
	s.must(err)
	c := &child{s: s, name: name, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(cast))
	c.cmd.Stderr = os.Stderr
	_, err = c.cmd.StdinPipe() // which ends with this process, however that ends, and the child with it
	s.must(err)
	out, err := c.cmd.StdoutPipe()
	s.must(err)
	s.must(c.cmd.Start())
	s.Cleanup(c.kill)
	c.reader.Go(func() { c.read(out) })
	return c
}

func (c *child) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e childEntry
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			c.s.journal.add(entry{member: c.name, what: e.What, name: e.Name, attempt: e.Attempt, detail: e.Detail})
		}
	}
}

// kill ends the child as kill -9 does, and returns when it is gone.
func (c *child) kill() {
	c.once.Do(func() {
		_ = c.cmd.Process.Kill()
		c.reader.Wait() // before Wait, which closes the pipe
		_ = c.cmd.Wait()
		c.s.journal.add(entry{member: c.name, what: killed.String()})
	})
}

// runChild is the child's main function. It ends by being killed.
func runChild(encoded string) {
	var cast childCast
	if err := json.Unmarshal([]byte(encoded), &cast); err != nil {
		panic(err)
	}
	j := newJournal()
	out := json.NewEncoder(os.Stdout)
	j.echo = func(e entry) { _ = out.Encode(childEntry{e.what, e.name, e.detail, e.attempt}) }
	if err := startChild(j, cast); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func startChild(j *journal, cast childCast) error {
	store, err := storage.Open(context.Background(), cast.Store)
	if err != nil {
		return err
	}
	stuck := rmqdedup.Intercept(store, func(ctx context.Context, next rmqdedup.Store, op rmqdedup.Op, reqs []rmqdedup.Request) ([]rmqdedup.Answer, error) {
		if op == rmqdedup.OpComplete && strings.HasPrefix(reqs[0].Key.Value, doomed) {
			select {}
		}
		return rmqdedup.Do(ctx, next, op, reqs)
	})
	d, err := rmqdedup.New(stuck, cast.Group, configFor(cast.Mode, cast.Levels, j.observer("")))
	if err != nil {
		return err
	}
	c, err := newConsumer(cast.NameServer, cast.Instance, d.ConsumerOptions()...)
	if err != nil {
		return err
	}
	handle := func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if strings.HasPrefix(nameOf(&msgs[0].Message), fatal) {
			select {}
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := c.Subscribe(cast.Topic, consumer.MessageSelector{}, d.Wrap(j.handler("", handle))); err != nil {
		return err
	}
	return c.Start()
}
