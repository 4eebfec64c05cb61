package sqlite

import (
	"net/url"
	"syscall"
)

// library is the SQLite that is linked: one in C with cgo, one in Go without. Both
// write the same file and take the same locks on it, so processes with one and with the
// other may have it open at the same time. One process must not open a file with both:
// a POSIX lock belongs to the process, and ends when that closes any handle of the file.
type library interface {
	// Name is what package database/sql knows it by.
	Name() string
	// Settings adds the settings that are written differently for each driver.
	// A cacheKiB of zero leaves the page cache at its default size.
	Settings(v url.Values, cacheKiB int)
	// Code returns SQLite's primary result code of an error, and the system's own
	// error number where the driver knows it.
	Code(err error) (code int, errno syscall.Errno, ok bool)
}
