// Package login is the wait of calls and connections until their program is authorized.
package login

import (
	"context"
	"errors"
)

// Waits is the error of a request that can be sent later.
type Waits interface {
	error
	// Wait has resume called once, with nil when the request can be sent again, else with why
	// not. It may be called before Wait returns. Leave gives the wait up.
	Wait(resume func(error)) (leave func())
}

// Elsewhere is such an error where a person may have to log in with another process.
type Elsewhere interface {
	Waits
	// Elsewhere says what the person logs in to, and for which scopes; nil if the server has not
	// said. It is false where the program asks a person itself, or needs none.
	Elsewhere() (resource string, scopes []string, ok bool)
	// Await is Wait without a bound: it ends with the login, or by leave.
	Await(resume func(error)) (leave func())
}

// ElsewhereOf returns the error in err that a login in another process ends, false without one.
func ElsewhereOf(err error) (Elsewhere, bool) {
	e, ok := errors.AsType[Elsewhere](err)
	if ok {
		_, _, ok = e.Elsewhere()
	}
	return e, ok
}

// Await waits until what has failed with err can be tried again: without a bound where a person
// logs in with another process. It returns nil if err cannot be waited for.
func Await(err error, resume func(error)) (leave func()) {
	if e, ok := ElsewhereOf(err); ok {
		return e.Await(resume)
	}
	if w, ok := errors.AsType[Waits](err); ok {
		return w.Wait(resume)
	}
	return nil
}

// maxWaits bounds how often one call, or one connection for its caller, waits for an
// authorization (AUTH-62).
const maxWaits = 3

// Count counts the waits of one call.
type Count int

// More counts one more, and reports whether there were not too many.
func (n *Count) More() bool {
	*n++
	return *n <= maxWaits
}

// Until tries again, whenever it is authorized to, what has failed with err. It returns nil or
// the last error.
func Until(ctx context.Context, err error, again func() error) error {
	for n := Count(0); err != nil && n.More(); {
		w, ok := errors.AsType[Waits](err)
		if !ok {
			return err
		}
		done := make(chan error, 1)
		leave := w.Wait(func(err error) { done <- err })
		select {
		case failed := <-done:
			if failed != nil {
				return errors.Join(err, failed)
			}
		case <-ctx.Done():
			leave()
			return errors.Join(err, context.Cause(ctx))
		}
		err = again()
	}
	return err
}
