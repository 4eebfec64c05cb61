//go:build !unix

package auth_test

import "testing"

// cpuTime is unknown.
func cpuTime(*testing.B) int64 { return 0 }
