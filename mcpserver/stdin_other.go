//go:build !unix

package mcpserver

import (
	"io"
	"os"
)

func standardInput() io.Reader { return os.Stdin }
