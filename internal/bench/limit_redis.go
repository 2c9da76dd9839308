package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// A rawPipeline is what a user would write by hand for a batch: one pipeline of plain SET NX, and one of plain SET.
type rawPipeline struct {
	client *goredis.Client
	prefix string
	keys   int
}

func newRawPipeline(s *stage, t *stateTable, callers, keys int) (*rawPipeline, error) {
	client, err := t.client(callers)
	if err != nil {
		return nil, err
	}
	s.close(client)
	return &rawPipeline{client: client, prefix: t.name + ":limit:", keys: keys}, nil
}

// storedRecord is about as long as what a store keeps with a key.
var storedRecord = strings.Repeat("r", 64)

// messages claims and completes those from first on.
func (r *rawPipeline) messages(ctx context.Context, first int) error {
	names := make([]string, r.keys)
	for i := range names {
		digest := sha256.Sum256([]byte(strconv.Itoa(first + i)))
		names[i] = r.prefix + hex.EncodeToString(digest[:16])
	}
	claims := r.client.Pipeline()
	for _, name := range names {
		claims.SetArgs(ctx, name, storedRecord, goredis.SetArgs{Mode: "NX", TTL: time.Minute})
	}
	if _, err := claims.Exec(ctx); errors.Is(err, goredis.Nil) {
		return errors.New("SET NX of a new key has not set it")
	} else if err != nil {
		return err
	}
	completions := r.client.Pipeline()
	for _, name := range names {
		completions.Set(ctx, name, storedRecord, 96*time.Hour)
	}
	_, err := completions.Exec(ctx)
	return err
}
