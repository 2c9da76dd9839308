package rmqdedup

import (
	"errors"
	"slices"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

// shadow claims and settles as always, but hands every message to the handler and gives its answer to the client as it is.
func (x *delivery) shadow() (consumer.ConsumeResult, error) {
	x.acquire(0, len(x.members))
	c := &call{Context: x.ctx, msgs: slices.Clone(x.msgs), cancel: func(error) {}} // a lost claim cancels nothing here
	for _, i := range x.of {
		c.members = append(c.members, &x.members[i])
	}
	if !x.d.drain.start(c) {
		return x.letGo()
	}
	mine := &call{}
	for i := range x.members {
		if m := &x.members[i]; m.state == held || m.state == bare {
			mine.members = append(mine.members, m)
		}
	}
	x.result.Ran += len(c.msgs)
	x.tellUnprotected(mine.members)
	ok := false // see run
	defer func() {
		if !ok {
			x.result.Failed += len(c.msgs)
		}
		x.settle(mine, ok, nil)
		x.d.drain.stop(c)
	}()
	answer, err := x.call(c)
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		answer = x.retryResult()
	}
	ok = x.succeeded(answer, err)
	return answer, err
}
