package mcptest

import (
	"bytes"
	"runtime"
)

// BubbleGoroutines returns how many goroutines are in bubbles of testing/synctest. Unlike
// [runtime.NumGoroutine] it leaves out those that the runtime and other tests have outside, which
// come and go in real time.
func BubbleGoroutines() int {
	stacks := make([]byte, 64<<10)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			stacks = stacks[:n]
			break
		}
		stacks = make([]byte, 2*len(stacks))
	}
	count := 0
	for block := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		head, _, _ := bytes.Cut(block, []byte("\n"))
		if bytes.HasPrefix(head, []byte("goroutine ")) && bytes.Contains(head, []byte("synctest bubble")) {
			count++
		}
	}
	return count
}
