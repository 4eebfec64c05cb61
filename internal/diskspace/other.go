//go:build !(linux || darwin || freebsd)

// Package diskspace says how much room a disk has.
package diskspace

import "errors"

// Free is the room that this user has on the disk of a folder, in bytes.
func Free(string) (int64, error) {
	return 0, errors.New("not on this operating system")
}
