package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// A setting is what a story needs before it begins.
type setting struct {
	mode   rmqdedup.Mode
	queues int // of the topic; 1 unless set
	store  storeKind
	claims bool // its point is what becomes of a claim: it is played on the databases too
	tables bool // it is played on the databases only, and on both with each broker
	needs  []ability
	// restarts says that the broker restarts in it. The real one is one that only such stories use, one at a time.
	restarts bool
	// namespace is that of the topic and the group, if any.
	namespace string
	// racy says why the story cannot be played under the race detector, if so.
	racy string
}

// A story is one test on one broker: a topic, a consumer group, a store, and what happens.
type story struct {
	*testing.T
	ctx     context.Context
	set     setting
	broker  broker
	server  server // of the store, where it is on one
	journal *journal
	topic   string
	group   string
	store   rmqdedup.Store // nil without one
	url     string         // of the store, for other processes
	line    *line          // to the store, where the setting wants one that can be cut

	producer rocketmq.Producer
	members  []*member
	probes   int
	copies   map[string]int // how often each message was sent

	// What is checked at the end, where it is not the usual.
	successes    map[string]int  // of a message, where it is not one
	deadLettered int             // how many messages are
	told         map[string]bool // events that are part of the story
}

// long says whether to wait for what takes minutes.
var long = os.Getenv("RMQDEDUP_LONG") == "1"

const (
	storyTime = time.Minute // that a story may take, which is far more than it does
	endTime   = 20 * time.Second
)

// play tells a story on every broker, with each of the servers that are for its store there.
func play(t *testing.T, set setting, tell func(s *story)) {
	t.Helper()
	if (set.mode == rmqdedup.Ordered) != strings.HasPrefix(t.Name(), "TestOrdered") || (set.racy != "") != strings.HasPrefix(t.Name(), "TestUnraced") {
		t.Fatal("stories that cannot be played under the race detector are named TestOrdered…, and TestUnraced… where the consumer is not ordered: make test has a pass of its own for them")
	}
	if set.mode == rmqdedup.Ordered {
		set.racy = "ordered consumption (its takeMessages reads a cache without the lock)"
	}
	if set.racy != "" && raceDetector {
		t.Skipf("the client itself races in %s: run it without -race, go test -run %s ./internal/e2e/...", set.racy, t.Name())
	}
	t.Parallel()
	for i, venue := range brokers {
		for _, server := range set.servers(i) {
			playOn(t, venue, server, set, tell)
		}
	}
}

func playOn(t *testing.T, venue venue, server server, set setting, tell func(s *story)) {
	t.Helper()
	name := venue.name
	if server.name != "" {
		name += "-" + server.name
	}
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		set.awaitTurn(t)
		b := venue.open(t, set)
		for _, need := range set.needs {
			if why, lacking := b.lacks()[need]; lacking {
				t.Skipf("%s cannot %s: %s", venue.name, need, why)
			}
		}
		s := begin(t, b, server, set)
		tell(s)
		s.end()
	})
}

func begin(t *testing.T, b broker, server server, set setting) *story {
	limit := storyTime
	if set.restarts {
		limit *= 2 // a broker needs seconds to start, and half a minute passes before members notice
	}
	if long {
		limit *= 4
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the story's %v are over", limit))
	t.Cleanup(cancel)
	if set.queues == 0 {
		set.queues = 1
	}
	title := strings.TrimPrefix(strings.ReplaceAll(t.Name(), "/", "-"), "Test")
	title = fmt.Sprintf("%.60s-%s", title, rand.Text()[:8])
	ns := ""
	if set.namespace != "" {
		ns = set.namespace + "%"
	}
	s := &story{
		T: t, ctx: ctx, set: set, broker: b, server: server, journal: newJournal(), topic: ns + title, group: ns + "group-" + title,
		copies: make(map[string]int), successes: make(map[string]int), told: make(map[string]bool),
	}
	s.openStore()
	t.Cleanup(s.dismiss) // before the store is closed
	// With its retry topic there beforehand a group's first retry comes at once; otherwise the client needs 40 s to find it.
	s.must(b.createTopic(ctx, s.topic, set.queues), b.createTopic(ctx, s.retryTopic(), 1), b.createTopic(ctx, s.deadLetterTopic(), 1))
	s.startProducer(b.nameServer())
	return s
}

func (s *story) retryTopic() string      { return "%RETRY%" + s.group }
func (s *story) deadLetterTopic() string { return "%DLQ%" + s.group }

func (s *story) must(errs ...error) {
	s.Helper()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
}

// dismiss ends whatever is left of a story, told to the end or not.
func (s *story) dismiss() {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	s.leaveAll(ctx)
	if s.producer != nil {
		_ = s.producer.Shutdown()
	}
	if s.Failed() {
		s.Logf("topic %s, and what happened:\n%v", s.topic, s.journal)
		return // the topics stay to be looked at
	}
	for _, topic := range []string{s.topic, s.retryTopic(), s.deadLetterTopic()} {
		if err := s.broker.deleteTopic(ctx, topic); err != nil {
			s.Logf("deleting topic %s: %v", topic, err)
		}
	}
}

// Messages.

// startProducer starts the story's producer, in the place of the one that it has had.
func (s *story) startProducer(names string, options ...producer.Option) {
	s.Helper()
	instance := s.topic + "-producer"
	if s.producer != nil {
		s.must(s.producer.Shutdown())
		instance += "-2"
	}
	p, err := producer.NewDefaultProducer(append(options,
		producer.WithNameServer(primitive.NamesrvAddr{names}),
		producer.WithInstanceName(instance),
		producer.WithGroupName("producer-"+s.topic),
		producer.WithQueueSelector(queueSelector{}),
	)...)
	s.must(err)
	s.must(p.Start())
	s.producer = p
}

// queueSelector sends a message to the queue it names, or to the first.
type queueSelector struct{}

func (queueSelector) Select(m *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	for _, q := range queues {
		if m.Queue != nil && q.QueueId == m.Queue.QueueId || m.Queue == nil && q.QueueId == 0 {
			return q
		}
	}
	return nil
}

type messageOption func(*primitive.Message)

func inQueue(id int) messageOption {
	return func(m *primitive.Message) { m.Queue = &primitive.MessageQueue{QueueId: id} }
}

func withBody(body string) messageOption {
	return func(m *primitive.Message) { m.Body = []byte(body) }
}

func withProperty(name, value string) messageOption {
	return func(m *primitive.Message) { m.WithProperty(name, value) }
}

// withID gives a message the ID that its producer's client would give it.
func withID(id string) messageOption {
	return withProperty(primitive.PropertyUniqueClientMessageIdKeyIndex, id)
}

func bodyOf(name string) []byte { return fmt.Appendf(nil, `{"order":%q}`, name) }

// message makes a message that goes by a name, which is in its KEYS.
func (s *story) message(name string, options ...messageOption) *primitive.Message {
	m := primitive.NewMessage(s.topic, bodyOf(name))
	m.WithKeys([]string{name})
	for _, o := range options {
		o(m)
	}
	s.copies[nameOf(m)]++
	return m
}

// send sends a message, and returns when the broker has it.
func (s *story) send(name string, options ...messageOption) {
	s.Helper()
	s.post(s.message(name, options...))
}

// post sends messages, several of them as a batch.
func (s *story) post(msgs ...*primitive.Message) {
	s.Helper()
	_, err := s.producer.SendSync(s.ctx, msgs...)
	s.must(err)
}

// sendBatch sends n messages as one batch. Their names are made from the format and their numbers, from first on.
func (s *story) sendBatch(format string, first, n int, options ...messageOption) {
	s.Helper()
	var batch []*primitive.Message
	for i := range n {
		batch = append(batch, s.message(fmt.Sprintf(format, first+i), options...))
	}
	s.post(batch...)
}

// What comes of them.

// await waits until something has happened to a message as often as said, once unless said.
func (s *story) await(what fmt.Stringer, name string, times ...int) {
	s.Helper()
	n := 1
	if len(times) > 0 {
		n = times[0]
	}
	if err := s.journal.wait(s.ctx, func() bool { return len(s.journal.all(what, name)) >= n }); err != nil {
		s.Fatalf("waiting for %q to be %v %d times, seen %d: %v", name, what, n, len(s.journal.all(what, name)), err)
	}
}

// want checks how often something has happened to a message.
func (s *story) want(n int, what fmt.Stringer, name string) {
	s.Helper()
	if got := len(s.journal.all(what, name)); got != n {
		s.Errorf("%q was %v %d times, want %d", name, what, got, n)
	}
}

// expect says which events are part of the story, though they are no part of most.
func (s *story) expect(kinds ...rmqdedup.EventKind) {
	for _, k := range kinds {
		s.told[k.String()] = true
	}
}

// ordinary are the events that need no mention.
var ordinary = map[string]bool{
	rmqdedup.EventSuppressed.String(): true, rmqdedup.EventRepeated.String(): true, rmqdedup.EventInFlight.String(): true,
	rmqdedup.EventConfigured.String(): true, rmqdedup.EventLastAttempt.String(): true,
}

// isOrdinary says whether e needs no mention. A renewal that fails is tried again; on a busy machine one is late at times.
func isOrdinary(e entry) bool {
	return ordinary[e.what] || e.what == rmqdedup.EventStoreError.String() && e.op == rmqdedup.OpRenew
}

// end checks what holds for every story, when all of its messages have found their end.
func (s *story) end() {
	s.Helper()
	for name, copies := range s.copies {
		if isProbe(name) {
			continue
		}
		if n, told := s.successes[name]; told {
			s.await(succeeded, name, n)
		} else {
			s.await(succeeded, name)
			s.await(acknowledged, name, copies)
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, endTime)
	defer cancel()
	for _, m := range s.members {
		if !m.gone {
			s.must(m.awaitCached(ctx, 0)) // everything has found an answer
		}
	}
	s.leaveAll(ctx)
	dead, err := s.broker.stored(ctx, s.deadLetterTopic())
	s.must(err)
	if int(dead) != s.deadLettered {
		s.Errorf("%d messages are in the dead-letter topic, want %d", dead, s.deadLettered)
	}
	for name := range s.copies {
		n, told := s.successes[name]
		if !told {
			n = 1
		}
		if !isProbe(name) {
			s.want(n, succeeded, name)
		}
	}
	s.checkJournal()
}

func (s *story) checkJournal() {
	s.Helper()
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	for _, name := range s.journal.overlap {
		s.Errorf("%q was handled twice at the same time", name)
	}
	for _, e := range s.journal.entries {
		if !deeds[deed(e.what)] && !isOrdinary(e) && !s.told[e.what] {
			s.Errorf("an event that is no part of the story: %s of %q (%s)", e.what, e.name, e.detail)
		}
	}
}
