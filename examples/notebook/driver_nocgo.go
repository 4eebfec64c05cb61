//go:build !cgo

package main

import _ "modernc.org/sqlite"

const driver = "sqlite"
