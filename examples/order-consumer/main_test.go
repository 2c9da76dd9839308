package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram makes the test's own binary be the program: the end-to-end tests start it as another process, with the race detector if they have it.
const asProgram = "ORDER_CONSUMER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	// rocketmq-client-go starts this one when it is imported, and has no way to end it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/patrickmn/go-cache.(*janitor).Run"))
}
