//go:build !(linux || darwin || freebsd)

package doctor

import "errors"

// freeSpace is the room that this user has on the disk of a folder, in bytes.
func freeSpace(string) (int64, error) {
	return 0, errors.New("not on this operating system")
}
