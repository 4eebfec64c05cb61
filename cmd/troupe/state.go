package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// stateDir is where the program keeps its state: $XDG_STATE_HOME/troupe, or what
// the operating system has in its place.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "troupe"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "troupe"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "troupe"), err
}

// openStore opens what --store and --no-store ask for.
func (p *program) openStore() (store.Store, error) {
	if p.noStore {
		if p.storePath != "" {
			return nil, usagef("--store and --no-store exclude each other")
		}
		return memstore.New(nil), nil
	}
	path, err := p.storeFile()
	if err != nil {
		return nil, err
	}
	log, err := p.logger()
	if err != nil {
		return nil, err
	}
	s, err := sqlite.Open(path, &sqlite.Options{Logger: log})
	if err != nil {
		return nil, usagef("%w; name another file with --store, or use --no-store", err)
	}
	return s, nil
}

// storeFile is where the store is: what --store says, or the configuration, or else in the
// state folder.
func (p *program) storeFile() (string, error) {
	if p.storePath != "" {
		return p.storePath, nil
	}
	s, err := p.config()
	if err != nil {
		return "", err
	}
	if err := s.Resolve("store", os.Getenv); err != nil {
		return "", usagef("%w", err)
	}
	if s.Store.Path != "" {
		return s.Store.Path, nil
	}
	dir, err := stateDir()
	if err != nil {
		return "", usagef("finding the state folder: %w; name a file with --store, or use --no-store", err)
	}
	return filepath.Join(dir, "troupe.db"), nil
}

// closeStore closes s and adds its error to that of the command.
func closeStore(s store.Store, err *error) {
	if closing := s.Close(); closing != nil {
		*err = errors.Join(*err, fmt.Errorf("closing the store: %w", closing))
	}
}
