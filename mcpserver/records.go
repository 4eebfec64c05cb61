package mcpserver

import (
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// Kinds of [store.Record] that a server keeps.
const (
	recordTask   = "task"        // what is known of a task, under its id
	recordResult = "task-result" // what it has ended with, under its id
	recordServer = "task-server" // that the process that works on tasks is alive
)

// maxRecordBytes bounds the records of a server that was given no store.
const maxRecordBytes = 64 << 20

// recordsIn returns where the server keeps what outlives a request, and whether it
// also outlives the process.
func recordsIn(given store.Records) (records store.Records, durable bool) {
	if given != nil {
		return given, true
	}
	return memstore.New(&memstore.Options{MaxBytes: maxRecordBytes}), false
}
