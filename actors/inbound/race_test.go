//go:build race

package inbound_test

const raceEnabled = true
