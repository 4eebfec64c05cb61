//go:build !unix

package frame

import "io"

// newNonBlocking returns nil: here every writer is written from a started goroutine.
func newNonBlocking(io.Writer) nonBlocking { return nil }

// newRawRead returns nil: here a reader holds its buffer while it waits.
func newRawRead(*Reader) func() (int, error) { return nil }
