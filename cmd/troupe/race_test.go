//go:build race

package main

// raceDetector: everything takes several times as long and as much memory.
const raceDetector = true
