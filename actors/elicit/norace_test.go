//go:build !race

package elicit_test

const raceDetector = false
