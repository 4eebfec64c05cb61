//go:build !unix

package frame

import "io"

// newNonBlocking returns nil: here every writer is written from a started goroutine.
func newNonBlocking(io.Writer) nonBlocking { return nil }
