//go:build !unix

package mcpclient

import "time"

func cpuTime() time.Duration { return 0 }
