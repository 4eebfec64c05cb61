package hostile

import (
	"os"
	"strconv"
	"strings"
)

// resident is the memory of this process that is resident, in bytes; zero where that
// can not be told.
func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
