//go:build race

package rmqdedup_test

// raceEnabled says whether the race detector is on.
const raceEnabled = true
