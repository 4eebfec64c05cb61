//go:build !unix

package storetest

import "time"

// cpuTime is not known here, and reported as zero.
func cpuTime() time.Duration { return 0 }
