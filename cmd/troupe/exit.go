package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Exit codes. They are part of the interface: scripts test them.
const (
	exitOK          = 0
	exitFailed      = 1 // the run failed
	exitUsage       = 2 // the command line or a configuration is wrong
	exitWaiting     = 3 // a human has to decide; the run's id was printed
	exitLimit       = 4 // a limit was reached
	exitDenied      = 5 // a policy denied it
	exitUnreachable = 6 // a model or an MCP server can not be reached
	exitTimeout     = 124
	exitInterrupt   = 130 // SIGINT
	exitTerminated  = 143 // SIGTERM
)

// exitError is an error that says what the program exits with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitWith(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

func usagef(format string, args ...any) error {
	return exitWith(exitUsage, fmt.Errorf(format, args...))
}

// exitCode is what the program exits with for err.
func exitCode(err error) int {
	var e *exitError
	var s *signalError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &s):
		return s.code()
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, errTimeout):
		return exitTimeout
	}
	return exitFailed
}

// errTimeout is the cause of a context that --timeout ended.
var errTimeout = errors.New("the time limit of --timeout was reached")

// signalError is the cause of a context that a signal ended.
type signalError struct{ sig os.Signal }

func (e *signalError) Error() string { return "stopped by " + e.sig.String() }

func (e *signalError) code() int {
	if e.sig == syscall.SIGTERM {
		return exitTerminated
	}
	return exitInterrupt
}

// withSignals returns a context that the first SIGINT or SIGTERM ends, but for those that
// a command takes for itself; a second one ends the program at once.
func withSignals(parent context.Context, stderr io.Writer) (context.Context, func()) {
	own := new(interrupts)
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, interruptsKey{}, own))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for first := true; ; {
			select {
			case <-done:
				return
			case sig := <-signals:
				if sig == os.Interrupt && own.taken() {
					continue
				}
				err := &signalError{sig}
				if !first {
					os.Exit(err.code())
				}
				first = false
				fmt.Fprintf(stderr, "\n%v: ending what runs; again to leave at once\n", sig)
				cancel(err)
			}
		}
	}()
	var once sync.Once
	return ctx, func() { once.Do(func() { signal.Stop(signals); close(done); cancel(nil) }) }
}
