package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/store/sqlite/internal/puredriver"
)

// Pure is what package database/sql knows the library in Go by.
const Pure = "sqlite"

// DriverName is what package database/sql knows the library of new stores by.
func DriverName() string { return defaultLibrary.Name() }

// UsePure makes new stores use the library in Go, with cgo too.
func UsePure() { defaultLibrary = puredriver.Driver{} }

// WithPure makes one store use the library in Go.
func WithPure() *Options { return &Options{library: puredriver.Driver{}} }

// WithIdle sets how long the writer rests before it checkpoints.
func WithIdle(o Options, d time.Duration) *Options {
	o.idle = d
	return &o
}

// WithGather sets how long writes are gathered for one commit.
func WithGather(d time.Duration) *Options { return &Options{gather: d} }

// Block queues a write that holds the writer until release is called. Entered is
// closed once it has begun.
func (s *Store) Block() (entered <-chan struct{}, release func()) {
	in, out := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(in) }) // it runs again if the group it is in fails
	go s.writer.do(context.Background(), "blocking", weight{}, func(*tx) error {
		begun()
		<-out
		return nil
	})
	return in, func() { close(out) }
}

// Queued is the number of writes that wait.
func (s *Store) Queued() int { return len(s.writer.room) + int(s.writer.started.Load()) }

// Exec runs a statement on the connection that writes.
func (s *Store) Exec(query string) error {
	return s.writer.do(context.Background(), "testing", weight{}, func(t *tx) error { return t.s.script(query) })
}

// Int asks the connection that writes.
func (s *Store) Int(query string) (n int, err error) {
	err = s.writer.do(context.Background(), "testing", weight{}, func(t *tx) error { return t.row(query).Scan(&n) })
	return n, err
}

// Break closes the connection that writes, under the writer's feet.
func (s *Store) Break() error {
	return s.writer.do(context.Background(), "testing", weight{}, func(t *tx) error {
		t.s.discard()
		return nil
	})
}

// SpaceFor reports whether a file of a size can be written anew.
var SpaceFor = spaceFor
