//go:build linux || darwin || freebsd

// Package diskspace says how much room a disk has.
package diskspace

import (
	"golang.org/x/sys/unix"
)

// Free is the room that this user has on the disk of a folder, in bytes.
func Free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
