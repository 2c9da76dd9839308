package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// An order tells a process of its own what to consume, so that each measurement begins with the same empty client, and its processor time is its
// alone.
type order struct {
	NameServer, Topic, Group string
	Store                    string // its URL; the listener is a plain one, if it is empty
	Handlers, Batch          int
	Work                     time.Duration // of the handler, a message
	Messages                 int           // in the topic: their numbers are below

	// Measuring begins when messages have been run for the time Lead, and ends Count messages or the time Most later, and with it consuming.
	Lead, Most time.Duration
	Count      int
	// With a Count of 0 it is the course of consuming that is noted, from when Probes messages have been run until the process is told to stop.
	Probes int
}

// A consumption is what the process found.
type consumption struct {
	Ready bool // only that: the probes have been run, and consuming goes on

	Err     string
	Runs    int // of the messages that were measured
	Elapsed time.Duration
	CPU     time.Duration // of the whole process, meanwhile

	// Means of a call, meanwhile.
	Handler, Claim, Complete time.Duration

	Progress []sample // if Count is 0
}

// A sample says how many messages had been run when.
type sample struct {
	At   time.Time
	Runs int
}

// A consuming is a process that consumes.
type consuming struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	answer *json.Decoder
}

// consumerCommand is the first argument of such a process.
const consumerCommand = "consumer"

// consumeTime is far more than a round takes; a consumer that waits for a message which does not come is to end.
const consumeTime = time.Minute

// start starts the process. It ends with ctx, if not before.
func (o *order) start(ctx context.Context) (*consuming, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, consumerCommand)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &consuming{cmd: cmd, stdin: stdin, answer: json.NewDecoder(stdout)}
	if err := json.NewEncoder(stdin).Encode(o); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// next is what the process says next.
func (c *consuming) next() (consumption, error) {
	var r consumption
	if err := c.answer.Decode(&r); err != nil {
		return r, fmt.Errorf("the consuming process has said nothing more: %w", err)
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

// stop tells it to stop consuming.
func (c *consuming) stop() { _ = c.stdin.Close() }

// end ends it, and waits until it has gone.
func (c *consuming) end() error {
	c.stop()
	return c.cmd.Wait()
}

// consume has a process consume as many messages as are ordered.
func (o *order) consume(ctx context.Context) (r consumption, err error) {
	ctx, cancel := context.WithTimeout(ctx, consumeTime)
	defer cancel()
	c, err := o.start(ctx)
	if err != nil {
		return r, err
	}
	r, err = c.next()
	if ended := c.end(); err == nil {
		err = ended
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("after %v: %w", consumeTime, err)
	}
	return r, err
}
