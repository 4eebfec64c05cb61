//go:build !unix

package pipe

import (
	"io"
	"os"
)

func StandardInput() io.Reader { return os.Stdin }
