package e2e

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"go.uber.org/atomic"
)

// The client gives no sign of some of what it does by itself. What stories must know of that is read from its private fields.

// innards returns a pointer to a private field, found by a path of names from a pointer to a struct on.
func innards[T any](of any, path ...string) *T {
	v := reflect.ValueOf(of).Elem()
	for _, name := range path {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v = v.FieldByName(name); !v.IsValid() {
			panic(fmt.Sprintf("the client has changed: %T has no field %v of %v any more", of, name, path))
		}
	}
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Interface().(*T)
}

// cached is how many messages a consumer has pulled and not yet taken in an answer for.
func cached(c rocketmq.PushConsumer) (n int64) {
	innards[sync.Map](c, "defaultConsumer", "processQueueTable").Range(func(_, queue any) bool {
		n += (*innards[*atomic.Int64](queue, "cachedMsgCount")).Load()
		return true
	})
	return n
}

// queuesOf are the queues of a topic that a consumer reads.
func queuesOf(c rocketmq.PushConsumer, topic string) map[int]bool {
	has := make(map[int]bool)
	innards[sync.Map](c, "defaultConsumer", "processQueueTable").Range(func(queue, _ any) bool {
		if q := queue.(primitive.MessageQueue); q.Topic == topic {
			has[q.QueueId] = true
		}
		return true
	})
	return has
}

// awaitCached waits until the member's client has taken in all answers but those for n messages.
func (m *member) awaitCached(ctx context.Context, n int64) error {
	seen := 0
	return eventually(ctx, "the client to take in an answer", func() (bool, error) {
		has := cached(m.consumer.PushConsumer)
		if has == n {
			seen++ // it notes the offset only after that: look once more
		}
		return seen > 1, fmt.Errorf("%d messages are cached, want %d", has, n)
	})
}

// A carefulConsumer shuts down without racing with itself, which the race detector would hold against every story that is being played: a
// balance of queues reads a flag that Shutdown sets.
type carefulConsumer struct{ rocketmq.PushConsumer }

// Shutdown waits for the balance that is under way.
func (c carefulConsumer) Shutdown() error {
	if raceDetector {
		balancing := innards[sync.Mutex](c.PushConsumer, "defaultConsumer", "client", "rbMutex")
		balancing.Lock()
		defer balancing.Unlock()
	}
	return c.PushConsumer.Shutdown()
}
