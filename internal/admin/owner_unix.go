//go:build unix

package admin

import (
	"io/fs"
	"os"
	"syscall"
)

// hasModes says that the modes of files mean something here.
const hasModes = true

func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
