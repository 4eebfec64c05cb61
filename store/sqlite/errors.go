package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

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

// Primary result codes of SQLite (https://sqlite.org/rescode.html).
const (
	codeBusy     = 5
	codeLocked   = 6
	codeReadonly = 8
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeProtocol = 15
	codeNotADB   = 26
)

// noRoom adds the condition that an error of the file system stands for.
func noRoom(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok && slices.Contains(noSpace, errno) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

// translate adds the condition that an error of SQLite stands for.
func translate(l library, err error) error {
	code, errno, ok := l.Code(err)
	if !ok {
		return err
	}
	switch code {
	case codeFull:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case codeBusy, codeLocked, codeProtocol: // the last: another one was stopped while it looked at the log
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	case codeCorrupt, codeNotADB:
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	case codeCantOpen, codeReadonly:
		return fmt.Errorf("the file and its folder have to be writable: %w", err)
	}
	if slices.Contains(noSpace, errno) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}
