//go:build cgo

// Package cgodriver is SQLite in C, which a C compiler builds.
package cgodriver

import (
	"errors"
	"net/url"
	"strconv"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// Driver is mattn/go-sqlite3.
type Driver struct{}

// Name is what package database/sql knows it by.
func (Driver) Name() string { return "sqlite3" }

// Settings adds the settings that are written differently for each driver.
func (Driver) Settings(v url.Values, cacheKiB int) {
	v.Set("_stmt_cache_size", "64")
	v.Set("_mutex", "no") // package database/sql gives a connection to one caller at a time
	if cacheKiB > 0 {
		v.Set("_cache_size", strconv.Itoa(-cacheKiB))
	}
}

// Code returns SQLite's primary result code of an error, and the system's own error
// number where there is one. It reports false for an error that is not SQLite's.
func (Driver) Code(err error) (code int, errno syscall.Errno, ok bool) {
	e, ok := errors.AsType[sqlite3.Error](err)
	return int(e.Code), e.SystemErrno, ok
}
