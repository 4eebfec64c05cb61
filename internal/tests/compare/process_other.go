//go:build !linux

package main

import (
	"errors"
	"time"
)

var errSystem = errors.New("the CPU time and memory of another process are read on Linux only")

func cpuTime(int) (time.Duration, error) { return 0, errSystem }
func residentBytes(int) (float64, error) { return 0, errSystem }
func checkFiles(int) error               { return errSystem }
