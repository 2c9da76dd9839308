package redis_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
)

// A server is a redis-server of one test's own, for what cannot be done to one that others use too.
type server struct {
	addr string
	cmd  *exec.Cmd
}

// startServer starts a server with those settings, and returns when it takes connections.
func startServer(t testing.TB, settings ...string) *server {
	t.Helper()
	port := freePort(t)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, settings...)
	return start(t, port, "ready to accept connections", args...)
}

// start runs RMQDEDUP_REDIS_SERVER, or else redis-server, until the test ends, and returns when it has logged that it is ready.
func start(t testing.TB, port, ready string, args ...string) *server {
	t.Helper()
	path := os.Getenv("RMQDEDUP_REDIS_SERVER")
	if path == "" {
		path = testenv.RequireProgram(t, "redis-server", "redis-server")
	}
	s := &server{addr: "127.0.0.1:" + port, cmd: exec.Command(path, args...)}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.signal(t, syscall.SIGKILL)
		_ = s.cmd.Wait() // killed is how it ends
	})
	var log strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(strings.ToLower(lines.Text()), ready) {
			return s // what it logs from now on fits into the pipe
		}
		log.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("redis-server %v did not start:\n%s", args, log.String())
	return nil
}

// freePort returns a port that nobody listens on, as nobody does on the one 10,000 above it, which a Cluster's node takes too.
func freePort(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		bus, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+10000))
		_ = l.Close()
		if err == nil {
			_ = bus.Close()
			return strconv.Itoa(port)
		}
	}
}

func (s *server) url() string { return "redis://" + s.addr }

func (s *server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal %v: %v", sig, err)
	}
}

// stop makes the server silent, as a machine that has stalled is: it takes connections, but answers nothing.
func (s *server) stop(t testing.TB)    { s.signal(t, syscall.SIGSTOP) }
func (s *server) carryOn(t testing.TB) { s.signal(t, syscall.SIGCONT) }

// client returns a client for the server that is closed when the test ends.
func (s *server) client(t testing.TB, options ...func(*goredis.Options)) *goredis.Client {
	t.Helper()
	o := &goredis.Options{Addr: s.addr}
	for _, option := range options {
		option(o)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

// do sends one command.
func (s *server) do(t testing.TB, args ...any) any {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: s.addr, Protocol: 2, PipelinePoolSize: -1})
	defer func() { _ = c.Close() }()
	v, err := c.Do(context.WithoutCancel(t.Context()), args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// eventually tries until it succeeds, for what a server does in its own time.
func eventually(t testing.TB, what string, try func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !try() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
