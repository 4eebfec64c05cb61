//go:build !unix

package setup

import "io/fs"

// othersWrite knows nothing where files have no modes.
func othersWrite(fs.FileInfo) string { return "" }
