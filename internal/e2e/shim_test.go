package e2e

import (
	"context"
	"strings"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
	"github.com/rmqdedup/rmqdedup-go/storage/redis"
)

type closer interface {
	rmqdedup.Store
	Close() error
}

func openURL(ctx context.Context, url string) (closer, error) {
	if strings.HasPrefix(url, "redis") {
		return redis.Open(ctx, url)
	}
	return memory.New(memory.Config{})
}
