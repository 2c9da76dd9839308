//go:build !unix

package main

import (
	"errors"
	"time"
)

// processorTime is an error, since a figure of zero would pass for a good one.
func processorTime() (time.Duration, error) {
	return 0, errors.New("how much processor time a consumer takes is known only on Unix")
}
