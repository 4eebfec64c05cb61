// Package puredriver is SQLite translated to Go. It needs no C compiler, and builds
// for every system that Troupe is built for.
package puredriver

import (
	"errors"
	"fmt"
	"net/url"
	"syscall"

	"modernc.org/sqlite"
)

// Driver is modernc.org/sqlite.
type Driver struct{}

// Name is what package database/sql knows it by.
func (Driver) Name() string { return "sqlite" }

// Settings adds the settings that are written differently for each driver.
func (Driver) Settings(v url.Values, cacheKiB int) {
	v.Set("_error_rc", "1") // the text of an error is that of its code
	if cacheKiB > 0 {
		v.Set("_pragma", fmt.Sprintf("cache_size(-%d)", cacheKiB))
	}
}

// Code returns SQLite's primary result code of an error. The driver does not know the
// system's own error number. It reports false for an error that is not SQLite's.
func (Driver) Code(err error) (code int, errno syscall.Errno, ok bool) {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return 0, 0, false
	}
	return e.Code() & 0xff, 0, true // an extended code has the primary one in its lowest byte
}
