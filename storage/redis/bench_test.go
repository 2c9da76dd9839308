package redis_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/redis"
)

// BenchmarkTogether compares ways to let the calls of concurrent handlers share round trips: this package's, and go-redis' own auto-pipelining with the
// same commands. One iteration is a round of each, half a second or so; the metrics are medians over the rounds of messages a second, in
// relation to calls that share nothing. Try -benchtime 20x.
func BenchmarkTogether(b *testing.B) {
	url := testenv.Require(b, "RMQDEDUP_REDIS")
	for _, handlers := range []int{1, 20, 64} {
		b.Run(fmt.Sprintf("handlers=%d", handlers), func(b *testing.B) {
			client, ok := redis.NewTestClient(b, fmt.Sprintf("%s?pool_size=%d", url, handlers)).(*goredis.Client)
			if !ok {
				b.Fatal("the server is not a single one")
			}
			defer client.Close()
			pipelines, err := client.AutoPipeline()
			if err != nil {
				b.Fatal(err)
			}
			defer pipelines.Close()
			ways := []struct {
				name  string
				store *redis.Store
			}{
				{"alone", redis.NewHeeding(b, client, true)},
				{"coalesced", redis.NewHeeding(b, client, false)},
				{"auto-pipelined", redis.NewHeeding(b, pipelines, true)},
			}
			var next atomic.Int64
			next.Store(time.Now().UnixNano())
			rates := make([][]float64, len(ways))
			for round := 0; b.Loop(); round++ {
				now := make([]float64, len(ways))
				for i := range ways {
					i = (i + round) % len(ways) // what drifts is to favour none
					now[i] = messagesASecond(b, ways[i].store, handlers, &next)
				}
				for i := range ways {
					rates[i] = append(rates[i], now[i]/now[0])
				}
			}
			for i, w := range ways[1:] {
				slices.Sort(rates[i+1])
				b.ReportMetric(rates[i+1][len(rates[i+1])/2], w.name+"/alone")
			}
			b.ReportMetric(0, "ns/op") // a round is as long as it is
		})
	}
}

func messagesASecond(b *testing.B, s *redis.Store, handlers int, next *atomic.Int64) float64 {
	b.Helper()
	const round = 400 * time.Millisecond
	var done atomic.Int64
	var wg sync.WaitGroup
	ctx := context.WithoutCancel(b.Context()) // as those of messages are
	begin := time.Now()
	for range handlers {
		wg.Go(func() {
			for time.Since(begin) < round {
				reqs := []rmqdedup.Request{request(strconv.FormatInt(next.Add(1), 10))}
				for _, op := range []rmqdedup.Op{rmqdedup.OpAcquire, rmqdedup.OpComplete} {
					answers, err := rmqdedup.Do(ctx, s, op, reqs)
					if err == nil {
						err = answers[0].Err
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds()
}
