package mysql_test

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// defaultLog is what slog.Default() was told.
var defaultLog lockedBuffer

type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(&defaultLog, nil)))
	// RocketMQ's client starts it when the core imports it, for good.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/patrickmn/go-cache.(*janitor).Run"))
}
