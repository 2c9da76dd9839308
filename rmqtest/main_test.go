package rmqtest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"go.uber.org/goleak"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// patience bounds every wait of a test; no test comes near it unless something is wrong.
const patience = 40 * time.Second

var clientErrors errorLog

func TestMain(m *testing.M) {
	rlog.SetLogger(&clientErrors)
	flag.Parse()
	chosen := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { chosen[f.Name] = true })
	if !chosen["test.parallel"] && !chosen["test.fuzz"] {
		_ = flag.Set("test.parallel", "16") // most of the time they wait for the client's timers
	}
	var known []goleak.Option
	for _, name := range rmqtest.ClientGoroutines() {
		known = append(known, goleak.IgnoreAnyFunction(name))
	}
	goleak.VerifyTestMain(m, known...)
}

// errorLog is the client's logger: it keeps the errors and drops the rest.
type errorLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *errorLog) Error(msg string, fields map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprint(msg, " ", fields))
}
func (l *errorLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

func (l *errorLog) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines[n:])
}

func (l *errorLog) Fatal(msg string, fields map[string]any)   { l.Error(msg, fields) }
func (l *errorLog) Debug(msg string, fields map[string]any)   { l.debug("D", msg, fields) }
func (l *errorLog) Info(msg string, fields map[string]any)    { l.debug("I", msg, fields) }
func (l *errorLog) Warning(msg string, fields map[string]any) { l.debug("W", msg, fields) }
func (l *errorLog) Level(string)                              {}
func (l *errorLog) OutputPath(string) error                   { return nil }
func (l *errorLog) debug(level, msg string, fields map[string]any) {
	if strings.Contains(os.Getenv("RMQTEST_LOG"), level) {
		fmt.Println(time.Now().Format("05.000"), level, msg, fields)
	}
}

// start starts a broker for one test.
func start(t testing.TB, cfg rmqtest.Config) *rmqtest.Broker {
	t.Helper()
	b, err := rmqtest.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// topic makes a topic for one test.
func topic(t testing.TB, b *rmqtest.Broker, name string, queues int) string {
	t.Helper()
	if err := b.CreateTopic(name, queues); err != nil {
		t.Fatal(err)
	}
	return name
}

// ctx limits one wait.
func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return c
}

// newProducer starts a producer for one test.
func newProducer(t testing.TB, b *rmqtest.Broker, opts ...producer.Option) rocketmq.Producer {
	t.Helper()
	opts = append([]producer.Option{
		producer.WithNameServer(primitive.NamesrvAddr{b.Addr()}), producer.WithInstanceName(b.InstanceName()),
		producer.WithGroupName("producers"), producer.WithRetry(3),
	}, opts...)
	p, err := rocketmq.NewProducer(opts...)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown() })
	return p
}

func message(topic, body string) *primitive.Message { return primitive.NewMessage(topic, []byte(body)) }

// send sends the bodies one by one.
func send(t testing.TB, p rocketmq.Producer, topic string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if _, err := p.SendSync(ctx(t), message(topic, body)); err != nil {
			t.Fatal(err)
		}
	}
}

type handler func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// A worker is a consumer of one test.
type worker struct {
	rocketmq.PushConsumer
	b        *rmqtest.Broker
	instance string
	group    string
	got      chan *primitive.MessageExt
}

// newWorker starts a consumer whose messages appear in got, unless handle is given.
func newWorker(t testing.TB, b *rmqtest.Broker, group, topic string, handle handler, opts ...consumer.Option) *worker {
	t.Helper()
	w, err := startWorker(t, b, group, topic, "*", handle, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func startWorker(t testing.TB, b *rmqtest.Broker, group, topic, tags string, handle handler, opts ...consumer.Option) (*worker, error) {
	t.Helper()
	w := &worker{instance: b.InstanceName(), group: group, got: make(chan *primitive.MessageExt, 10_000)}
	if handle == nil {
		handle = func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range msgs {
				w.got <- m
			}
			return consumer.ConsumeSuccess, nil
		}
	}
	opts = append([]consumer.Option{
		consumer.WithNameServer(primitive.NamesrvAddr{b.Addr()}), consumer.WithInstance(w.instance),
		consumer.WithGroupName(group),
	}, opts...)
	c, err := rocketmq.NewPushConsumer(opts...)
	if err != nil {
		return nil, err
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, handle); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	w.PushConsumer = c
	w.b = b
	t.Cleanup(func() { w.shutDown(t) })
	return w, nil
}

func (w *worker) shutDown(t testing.TB) {
	t.Helper()
	if err := w.b.ShutDown(ctx(t), w.group, w.instance, w.Shutdown); err != nil {
		t.Error(err)
	}
}

// take returns the bodies of the next n messages, sorted: a concurrent consumer keeps no order.
func (w *worker) take(t testing.TB, n int) string {
	t.Helper()
	var bodies []string
	for _, m := range w.messages(t, n) {
		bodies = append(bodies, string(m.Body))
	}
	slices.Sort(bodies)
	return strings.Join(bodies, " ")
}

func (w *worker) messages(t testing.TB, n int) (msgs []*primitive.MessageExt) {
	t.Helper()
	return takeN(t, w.got, n)
}

// takeN returns the next n values of a channel.
func takeN[T any](t testing.TB, ch <-chan T, n int) (all []T) {
	t.Helper()
	over := time.After(patience)
	for len(all) < n {
		select {
		case v := <-ch:
			all = append(all, v)
		case <-over:
			t.Fatalf("only %d of %d came: %v", len(all), n, all)
		}
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
