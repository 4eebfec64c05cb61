//go:build !cgo

package sqlite

import "github.com/troupe-dev/troupe/store/sqlite/internal/puredriver"

var defaultLibrary library = puredriver.Driver{}
