//go:build linux || darwin || freebsd

package doctor

import (
	"golang.org/x/sys/unix"
)

// freeSpace is the room that this user has on the disk of a folder, in bytes.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
