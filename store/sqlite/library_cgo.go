//go:build cgo

package sqlite

import "github.com/troupe-dev/troupe/store/sqlite/internal/cgodriver"

var defaultLibrary library = cgodriver.Driver{}
