//go:build race

package rmqtest_test

// raceDetector: the client's ordered consumption reads its cache without its lock, which ends every such test under the
// race detector whatever the broker does.
const raceDetector = true
