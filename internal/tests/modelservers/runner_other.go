//go:build !linux

package modelservers

import (
	"errors"
	"os"
)

// Runners finds nothing: it looks for processes in /proc, which is Linux's.
func (s *OllamaServer) Runners() ([]*os.Process, error) { return nil, errors.ErrUnsupported }
