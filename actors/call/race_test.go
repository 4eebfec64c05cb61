//go:build race

package call_test

const raceDetector = true
