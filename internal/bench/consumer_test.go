package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/rmqdedup/rmqdedup-go/rmqtest"
)

// The test binary is the consuming process too, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == consumerCommand {
		os.Exit(consumerMain(os.Stdin, os.Stdout))
	}
	quiet()
	os.Exit(m.Run())
}

// inProcess is a broker that needs no server.
func inProcess(t *testing.T) *broker {
	t.Helper()
	if raceDetector {
		t.Skip("the client's shutdown has a data race with a balance")
	}
	server, err := rmqtest.Start(rmqtest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	b := &broker{nameServer: server.Addr(), address: server.Addr()}
	b.producer, err = rocketmq.NewProducer(producer.WithNameServer(primitive.NamesrvAddr{b.nameServer}), producer.WithInstanceName(server.InstanceName()))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.producer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.producer.Shutdown() })
	return b
}

func TestUnracedListenersAreMeasured(t *testing.T) {
	b := inProcess(t)
	for name, o := range map[string]order{
		"plain":              {Handlers: 4, Batch: 1, Work: time.Millisecond},
		"wrapped":            {Handlers: 4, Batch: 1, Work: time.Millisecond, Store: "memory://"},
		"wrapped in batches": {Handlers: 4, Batch: 8, Work: time.Millisecond, Store: "memory://"},
	} {
		o.NameServer = b.nameServer
		l := &listener{broker: b, order: o}
		f, err := l.measure(t.Context(), 20*time.Millisecond)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		units := []string{messagesPerSecond, cpuMicroseconds, handlerMicroseconds}
		if o.Store != "" {
			units = append(units, claimMicroseconds, completeMicroseconds)
		}
		for _, unit := range units {
			if f[unit] <= 0 {
				t.Errorf("%s: %v %s", name, f[unit], unit)
			}
		}
		if len(f) != len(units) {
			t.Errorf("%s: it has %v", name, f)
		}
	}
	if len(b.groups) != 6 || len(b.topics) == 0 {
		t.Errorf("%d groups and %d topics are to be removed", len(b.groups), len(b.topics))
	}
}

func TestUnracedAProducerIsPaced(t *testing.T) {
	b := inProcess(t)
	p := &pace{broker: b, perSecond: 1000, time: 200 * time.Millisecond}
	p.order = order{NameServer: b.nameServer, Handlers: 4, Batch: 1, Work: time.Millisecond, Store: "memory://"}
	f, err := p.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f[consumedOfSent]; !ok {
		t.Errorf("it has %v", f)
	}
	if last := p.sent[len(p.sent)-1].Runs; last != p.order.Messages {
		t.Errorf("%d messages were sent, want %d", last, p.order.Messages)
	}
}

func TestUnracedWhatFailsInTheProcessIsTold(t *testing.T) {
	b := inProcess(t)
	l := &listener{broker: b, order: order{NameServer: b.nameServer, Handlers: 1, Batch: 1, Work: time.Millisecond, Store: "nosuch://"}}
	if _, err := l.measure(t.Context(), time.Millisecond); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("the error is %v", err)
	}
}
