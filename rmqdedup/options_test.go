package rmqdedup_test

import (
	"reflect"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

// TestConsumerOptions applies the options to the client's own, whose type is not exported.
func TestConsumerOptions(t *testing.T) {
	tests := []struct {
		name string
		cfg  rmqdedup.Config
		want map[string]any
	}{
		{name: "defaults", want: map[string]any{
			"GroupName": group, "Namespace": "", "ConsumerModel": consumer.Clustering, "ConsumeOrderly": false, "MaxReconsumeTimes": int32(-1),
			"ConsumeTimeout": 15 * time.Minute, "AutoCommit": true, "SuspendCurrentQueueTimeMillis": time.Second,
		}},
		{name: "everything", cfg: rmqdedup.Config{
			Mode: rmqdedup.Ordered, Namespace: "shop", MaxReconsumeTimes: 5, ConsumeTimeout: 5 * time.Minute, SuspendPause: 2 * time.Second,
		}, want: map[string]any{
			"GroupName": group, "Namespace": "shop", "ConsumerModel": consumer.Clustering, "ConsumeOrderly": true, "MaxReconsumeTimes": int32(5),
			"ConsumeTimeout": 5 * time.Minute, "AutoCommit": true, "SuspendCurrentQueueTimeMillis": 2 * time.Second,
		}},
		{name: "never again", cfg: rmqdedup.Config{MaxReconsumeTimes: rmqdedup.NoReconsume}, want: map[string]any{"MaxReconsumeTimes": int32(0)}},
		{name: "what 0 means", cfg: rmqdedup.Config{MaxReconsumeTimes: 0}, want: map[string]any{"MaxReconsumeTimes": int32(-1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Key, tt.cfg.Observer = rmqdedup.Keys, rmqdedup.NopObserver{}
			d, err := rmqdedup.New(memoryStore(t), group, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			// The opposite of everything comes first, so that what is not said is noticed.
			opts := append([]consumer.Option{
				consumer.WithConsumerModel(consumer.BroadCasting), consumer.WithConsumerOrder(tt.cfg.Mode != rmqdedup.Ordered), consumer.WithAutoCommit(false),
				consumer.WithMaxReconsumeTimes(99), consumer.WithConsumeTimeout(time.Second), consumer.WithSuspendCurrentQueueTimeMillis(time.Hour),
			}, d.ConsumerOptions()...)
			got := applied(opts)
			for field, want := range tt.want {
				if v := got.FieldByName(field).Interface(); v != want {
					t.Errorf("%s is %v, want %v", field, v, want)
				}
			}
		})
	}
}

// applied returns the client's options after all of opts.
func applied(opts []consumer.Option) reflect.Value {
	target := reflect.New(reflect.TypeOf(opts[0]).In(0).Elem())
	for _, o := range opts {
		reflect.ValueOf(o).Call([]reflect.Value{target})
	}
	return target.Elem()
}

func TestPushConsumerTakesTheOptions(t *testing.T) {
	rlog.SetLogLevel("fatal")
	d, err := rmqdedup.New(memoryStore(t), group, rmqdedup.Config{Key: rmqdedup.Keys, Namespace: "shop", Observer: rmqdedup.NopObserver{}})
	if err != nil {
		t.Fatal(err)
	}
	// Nobody listens there; the consumer is not started.
	c, err := rocketmq.NewPushConsumer(append(d.ConsumerOptions(), consumer.WithNameServer([]string{"127.0.0.1:1"}))...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Subscribe("orders", consumer.MessageSelector{}, d.Wrap(answer(consumer.ConsumeSuccess, nil))); err != nil {
		t.Error(err)
	}
}
