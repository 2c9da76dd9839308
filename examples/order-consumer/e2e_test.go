package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
)

func TestEndToEndConcurrent(t *testing.T) {
	t.Parallel()
	start(t, "-produce", "1000").endsWell(t)
}

// Fewer and slower handlers, so that batches fill.
func TestEndToEndBatch(t *testing.T) {
	t.Parallel()
	start(t, "-produce", "1000", "-batch", "16", "-handlers", "4", "-handle-time", "20ms").endsWell(t)
}

func TestEndToEndOrdered(t *testing.T) {
	if raceDetector {
		t.Skip("rocketmq-client-go itself races in ordered consumption; go test -run Ordered without -race runs this")
	}
	t.Parallel()
	start(t, "-produce", "1000", "-mode", "ordered").endsWell(t)
}

func TestEndToEndMessageID(t *testing.T) {
	t.Parallel()
	p := start(t, "-produce", "200", "-key", "message-id")
	p.end(t, exitGood)
	// Of the 60 orders that are sent again, 46 are so under another ID.
	if n := p.row(t, "orders with more than one successful run"); n != 46 || !strings.Contains(p.stdout.String(), "46 orders succeeded twice, rightly") {
		t.Errorf("%d orders succeeded twice, want 46, and a word on it:\n%s", n, &p.stdout)
	}
}

// The figure that is 0 elsewhere counts: here the handler refuses everything, and nothing is delivered again.
func TestEndToEndDeadLetters(t *testing.T) {
	t.Parallel()
	p := start(t, "-produce", "100", "-fail", "1", "-max-reconsume", "0")
	p.end(t, exitBad)
	if dead, without := p.row(t, "in the dead-letter topic"), p.row(t, "orders without one"); dead != 130 || without != 100 {
		t.Errorf("dead-lettered %d, want 130; orders without a success %d, want 100\n%s", dead, without, &p.stdout)
	}
}

// Case 17: a member dies in its handler, as by kill -9, and the one that is left does what it has not done, and nothing else. The dead one's claim is
// taken over from a table, if no janitor has cleared it before that; in Redis it is gone when it ends.
func TestEndToEndCrash(t *testing.T) {
	for _, c := range []struct {
		name, variable string
		table, janitor bool
	}{
		{"Redis", "RMQDEDUP_REDIS", false, false},
		{"MySQL", "RMQDEDUP_MYSQL", true, false},
		{"MySQLAndJanitor", "RMQDEDUP_MYSQL", true, true},
		{"MariaDB", "RMQDEDUP_MARIADB", true, false},
		{"MariaDBAndJanitor", "RMQDEDUP_MARIADB", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := testenv.Require(t, c.variable)
			if c.table {
				store = testenv.OwnTable(t, store)
			}
			name := fmt.Sprintf("crash-%d-%d", os.Getpid(), time.Now().UnixNano())
			group := []string{"-store", store, "-topic", name, "-group", name, "-ledger", filepath.Join(t.TempDir(), "ledger")}
			// With one handler nothing is done in the moment of death that could not be noted any more.
			dies := start(t, append(group, "-member", "-handlers", "1", "-crash-after", "30")...)
			dies.stdout.await(t, "topic "+name)
			if c.janitor {
				group = append(group, "-janitor", "@every 1s")
			}
			lives := start(t, append(group, "-produce", "500")...)
			t.Parallel() // all of them run, which is mostly waiting, at the same time
			lives.endsWell(t)
			dies.end(t, -1)
			if status, ok := dies.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() != syscall.SIGKILL {
				t.Errorf("the member that was to die ended by %v", dies.ProcessState)
			}
			found, want := lives.row(t, "taken over"), 0
			if c.janitor {
				found += lives.row(t, cleanedRow)
			}
			if c.table {
				want = 1
			}
			if found != want {
				t.Errorf("%d claims of the dead member were taken over or cleared, want %d", found, want)
			}
			if told := strings.Contains(lives.stderr.String(), "janitor: in time for the retries"); told != c.janitor {
				t.Errorf("the janitor's arithmetic is told: %v, want %v\n%s", told, c.janitor, &lives.stderr)
			}
			if told := strings.Contains(lives.stdout.String(), "no janitor runs here"); told != (c.table && !c.janitor) {
				t.Errorf("that no janitor runs is told: %v\n%s", told, &lives.stdout)
			}
		})
	}
}

const cleanedRow = "dead claims that the janitor cleared"

// The janitor clears what a member leaves that is the last one: nobody comes to take it over.
func TestEndToEndJanitorClears(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("clears-%d-%d", os.Getpid(), time.Now().UnixNano())
	store := testenv.OwnTable(t, testenv.Require(t, "RMQDEDUP_MYSQL"))
	common := []string{"-store", store, "-ledger", filepath.Join(t.TempDir(), "ledger")}
	dies := start(t, append(common, "-topic", name, "-group", name, "-handlers", "1", "-crash-after", "3", "-produce", "5", "-lease", "1s")...)
	dies.end(t, -1)
	// Of another group: what it clears is not its own.
	cleans := start(t, append(common, "-topic", name+"-2", "-group", name+"-2", "-member", "-janitor", "@every 1s")...)
	cleans.stderr.await(t, "janitor: swept")
	if err := cleans.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cleans.end(t, exitInterrupted)
	if n := cleans.row(t, cleanedRow); n != 1 {
		t.Errorf("cleared %d claims, want the one of the member that died\n%s", n, &cleans.stdout)
	}
}

// With -migrate=false the table is left to others, and missed; without it a process creates it, and another one finds it. The store is a DSN.
func TestEndToEndMigrate(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(testenv.OwnTable(t, testenv.Require(t, "RMQDEDUP_MARIADB")))
	if err != nil {
		t.Fatal(err)
	}
	dsn := fmt.Sprintf("%s@tcp(%s)%s?%s", u.User, u.Host, u.Path, u.RawQuery)
	p := start(t, "-store", dsn, "-migrate=false", "-produce", "10")
	p.end(t, exitBad)
	if table := u.Query().Get("table"); !strings.Contains(p.stderr.String(), table) || !strings.Contains(p.stderr.String(), "Migrate") {
		t.Errorf("the error does not say that table %s is missing, or not how to mend it: %s", table, &p.stderr)
	}
	start(t, "-store", dsn, "-produce", "10", "-duplicates", "0", "-fail", "0").end(t, exitGood)
	start(t, "-store", dsn, "-migrate=false", "-produce", "10", "-duplicates", "0", "-fail", "0").end(t, exitGood)
}

// The commands that a first run shows at its end work as they are shown. They have fewer orders here.
func TestEndToEndCommands(t *testing.T) {
	for _, server := range []string{"RMQDEDUP_NAMESRV", "RMQDEDUP_REDIS", "RMQDEDUP_MYSQL", "RMQDEDUP_DELAY_LEVELS"} {
		testenv.Require(t, server)
	}
	var running []*program
	for line := range strings.Lines(commands) {
		if flags, ok := strings.CutPrefix(strings.TrimSpace(line), "go run ./examples/order-consumer "); ok {
			running = append(running, launchBy(t, exec.Command("sh", "-c", `exec "$0" `+flags+" -seed 1 -produce 300 -fail 0.07", os.Args[0]))) //nolint:gosec // itself
		}
	}
	t.Parallel()
	if len(running) != 4 {
		t.Errorf("%d commands, want 4", len(running))
	}
	for _, p := range running {
		p.endsWell(t)
	}
}

func TestEndToEndInterrupt(t *testing.T) {
	t.Parallel()
	p := start(t, "-produce", "20000", "-handle-time", "100ms")
	p.stderr.await(t, "delivered")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.end(t, exitInterrupted)
	if n := p.row(t, "orders with more than one successful run"); n != 0 || !strings.Contains(p.stdout.String(), "Interrupted after") {
		t.Errorf("%d orders succeeded twice:\n%s", n, &p.stdout)
	}
}

func TestEndToEndStoreIsAway(t *testing.T) {
	t.Parallel()
	p := start(t, "-store", "redis://somebody:hush@127.0.0.1:1/0")
	p.end(t, exitBad)
	if got := p.stderr.String(); strings.Contains(got, "hush") || !strings.Contains(got, "127.0.0.1:1") {
		t.Errorf("the error shows the password, or not the address: %s", got)
	}
}

// A program is the example in a process of its own.
type program struct {
	*exec.Cmd
	stdout, stderr output
}

// start starts the example on real servers.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return launch(t, append([]string{
		"-namesrv", testenv.Require(t, "RMQDEDUP_NAMESRV"), "-store", testenv.Require(t, "RMQDEDUP_REDIS"),
		"-delay-levels", os.Getenv("RMQDEDUP_DELAY_LEVELS"), "-lease", "5s", "-seed", "1", "-timeout", "3m",
	}, args...)...)
}

// launch starts the example with these arguments alone.
func launch(t *testing.T, args ...string) *program {
	t.Helper()
	return launchBy(t, exec.Command(os.Args[0], args...)) //nolint:gosec // itself
}

// launchBy starts the example by a command.
func launchBy(t *testing.T, command *exec.Cmd) *program {
	t.Helper()
	p := &program{Cmd: command}
	p.Env = append(os.Environ(), asProgram+"=1")
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// end waits for the end of the program, and for this exit status; -1 is an end by a signal.
func (p *program) end(t *testing.T, status int) {
	t.Helper()
	if err := p.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if p.ProcessState.ExitCode() != status {
		t.Fatalf("%v, want exit status %d\n%s\n%s", p.ProcessState, status, &p.stderr, &p.stdout)
	}
}

// endsWell waits for the end of a program in which each order succeeds once, and none is dead-lettered.
func (p *program) endsWell(t *testing.T) {
	t.Helper()
	p.end(t, exitGood)
	for _, name := range []string{"orders with more than one successful run", "orders without one", "in the dead-letter topic"} {
		if n := p.row(t, name); n != 0 {
			t.Errorf("%s: %d\n%s", name, n, &p.stdout)
		}
	}
	if p.row(t, "suppressed") == 0 || p.row(t, "retried") == 0 {
		t.Errorf("nothing was suppressed, or nothing failed:\n%s", &p.stdout)
	}
	t.Logf("%s", &p.stdout)
}

// row is the figure in a row of the table.
func (p *program) row(t *testing.T, name string) int {
	t.Helper()
	found := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(name) + ` +(\d+)$`).FindStringSubmatch(p.stdout.String())
	if found == nil {
		t.Fatalf("the table lacks %q:\n%s", name, &p.stdout)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// An output is what a program has written, and says when a text is in it.
type output struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	waits  string
	appear chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.buf.Write(b)
	o.look()
	return n, err
}

func (o *output) look() {
	if o.appear != nil && strings.Contains(o.buf.String(), o.waits) {
		close(o.appear)
		o.appear = nil
	}
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) await(t *testing.T, text string) {
	t.Helper()
	appear := make(chan struct{})
	o.mu.Lock()
	o.waits, o.appear = text, appear
	o.look()
	o.mu.Unlock()
	select {
	case <-appear:
	case <-time.After(time.Minute):
		t.Fatalf("%q does not appear:\n%s", text, o.String())
	}
}
