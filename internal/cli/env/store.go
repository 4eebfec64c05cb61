package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// LookEvery is how often a watched store is looked at.
const LookEvery = 500 * time.Millisecond

// WakeAll tells the processes that share the store's state that something is new, and
// returns how many there are.
func (e *Env) WakeAll(ctx context.Context) int {
	dir, err := e.SocketDir()
	if err != nil {
		return 0 // they see by themselves, within a second
	}
	return admin.WakeAll(ctx, dir)
}

// SocketDir is the folder of the admin sockets of all processes that share the store. A process that keeps nothing
// shares none.
func (e *Env) SocketDir() (string, error) {
	state, err := StateDir()
	if err != nil {
		return "", err
	}
	if e.NoStore {
		return admin.Dir(state, fmt.Sprintf("\x00process %d", os.Getpid())), nil
	}
	file, err := e.StoreFile()
	return admin.Dir(state, file), err
}

// Processes are those of this user on this machine that share the store, and listen on admin sockets.
func (e *Env) Processes() ([]*admin.Client, error) {
	dir, err := e.SocketDir()
	if err != nil {
		return nil, err
	}
	return admin.Find(dir)
}

func UserName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown user"
}

// StateDir is where the program keeps its state: $XDG_STATE_HOME/troupe, or what
// the operating system has in its place.
func StateDir() (string, error) {
	dir, err := config.UserFolder("XDG_STATE_HOME", filepath.Join(".local", "state"))
	return filepath.Join(dir, "troupe"), err
}

// OpenStore opens what --store and --no-store ask for.
func (e *Env) OpenStore() (store.Store, error) {
	if e.NoStore {
		if e.StorePath != "" {
			return nil, Usagef("--store and --no-store exclude each other")
		}
		return memstore.New(nil), nil
	}
	path, err := e.StoreFile()
	if err != nil {
		return nil, err
	}
	if e.DryRun {
		return memstore.New(nil), checkStoreFile(path)
	}
	log, err := e.Logger()
	if err != nil {
		return nil, err
	}
	s, err := sqlite.Open(path, &sqlite.Options{Logger: log})
	if err != nil {
		return nil, Usagef("%w; name another file with --store, or use --no-store", err)
	}
	return s, nil
}

// checkStoreFile reports what [sqlite.Open] would refuse of a path, without opening, making or upgrading a file.
func checkStoreFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer f.Close()
		const magic = "SQLite format 3\x00"
		head := make([]byte, len(magic))
		n, rerr := io.ReadFull(f, head)
		if err = rerr; errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(head) != magic {
			err = errors.New("it is not a store")
		}
		if errors.Is(err, io.EOF) && n == 0 { // an empty file becomes one
			err = nil
		}
	}
	if err != nil {
		return Usagef("opening the store %s: %w; name another file with --store, or use --no-store", path, err)
	}
	return nil
}

// StoreFile is where the store is: what --store says, or the configuration, or else in the
// state folder.
func (e *Env) StoreFile() (string, error) {
	if e.StorePath != "" {
		return e.StorePath, nil
	}
	s, err := e.Section("store")
	if err != nil {
		return "", err
	}
	if s.Store.Path != "" {
		return s.Store.Path, nil
	}
	dir, err := StateDir()
	if err != nil {
		return "", Usagef("finding the state folder: %w; name a file with --store, or use --no-store", err)
	}
	return filepath.Join(dir, "troupe.db"), nil
}

// CloseStore closes s and adds its error to that of the command.
func CloseStore(s store.Store, err *error) {
	if closing := s.Close(); closing != nil {
		*err = errors.Join(*err, fmt.Errorf("closing the store: %w", closing))
	}
}

// Stored returns the RunE of a command that works with the store.
func (e *Env) Stored(run func(cmd *cobra.Command, args []string, s store.Store) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return e.WithStore(func(s store.Store) error { return run(cmd, args, s) })
	}
}

// WithStore opens the store, uses it and closes it.
func (e *Env) WithStore(use func(store.Store) error) (err error) {
	s, err := e.OpenStore()
	if err != nil {
		return err
	}
	defer CloseStore(s, &err)
	return use(s)
}

// Every calls look now and after each interval, until it fails, reports the end, or ctx ends.
func Every(ctx context.Context, interval time.Duration, look func() (over bool, err error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if over, err := look(); over || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
