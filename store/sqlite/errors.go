package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/mattn/go-sqlite3"

	"github.com/troupe-dev/troupe/store"
)

// refusals are answers, not failures: nothing was changed, and the transaction
// they were found in is good.
var refusals = []error{
	store.ErrNotFound, store.ErrExists, store.ErrRepeated, store.ErrFenced, store.ErrLeased, store.ErrFinished,
	store.ErrConflict, store.ErrSettled, store.ErrInvalid, store.ErrTooLarge,
}

func refused(err error) bool {
	return err != nil && slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
}

// translate adds the condition that an error of SQLite stands for.
func translate(err error) error {
	e, ok := errors.AsType[sqlite3.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case sqlite3.ErrFull:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrProtocol: // the last: another one was stopped while it looked at the log
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	case sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	case sqlite3.ErrCantOpen, sqlite3.ErrReadonly:
		return fmt.Errorf("the file and its folder have to be writable: %w", err)
	}
	switch e.SystemErrno {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}
