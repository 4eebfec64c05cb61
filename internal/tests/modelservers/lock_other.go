//go:build !unix || solaris || aix

package modelservers

import (
	"context"
	"errors"
)

// lock refuses: the servers are built and run where tests run, on Linux and macOS.
func lock(context.Context, string) (func(), error) { return nil, errors.ErrUnsupported }
