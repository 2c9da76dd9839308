//go:build !race

package e2e

// raceDetector says whether the test binary was built with -race.
const raceDetector = false
