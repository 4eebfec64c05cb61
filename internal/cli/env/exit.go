package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/troupe-dev/troupe/llm"
)

// Exit codes. They are part of the interface: scripts test them.
const (
	ExitOK          = 0
	ExitFailed      = 1 // the run failed
	ExitUsage       = 2 // the command line or a configuration is wrong
	ExitWaiting     = 3 // a human has to decide; the run's id was printed
	ExitLimit       = 4 // a limit was reached
	ExitDenied      = 5 // a policy denied it
	ExitUnreachable = 6 // a model or an MCP server cannot be reached, or the model's service fails
	ExitLogin       = 7 // a person has to log in at an MCP server first
	ExitIncomplete  = 8 // there is an answer, and it is cut, empty, or a call that was not made
	ExitTimeout     = 124
	ExitInterrupt   = 130 // SIGINT
	ExitTerminated  = 143 // SIGTERM
)

// ExitError is an error that says what the program exits with.
type ExitError struct {
	Code int
	err  error
}

func (e *ExitError) Error() string { return e.err.Error() }

func (e *ExitError) Unwrap() error { return e.err }

func ExitWith(code int, err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{code, err}
}

func Usagef(format string, args ...any) error {
	return ExitWith(ExitUsage, fmt.Errorf(format, args...))
}

// ExitCode is what the program exits with for err.
func ExitCode(err error) int {
	var e *ExitError
	var s *SignalError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &s):
		return s.Code()
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, ErrTimeout):
		return ExitTimeout
	}
	return ExitFailed
}

// ErrTimeout is the cause of a context that --timeout ended.
var ErrTimeout = errors.New("the time limit of --timeout was reached")

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ sig os.Signal }

func (e *SignalError) Error() string { return "stopped by " + e.sig.String() }

func (e *SignalError) Code() int {
	if e.sig == syscall.SIGTERM {
		return ExitTerminated
	}
	return ExitInterrupt
}

// WithSignals returns a context that the first SIGINT or SIGTERM ends, but for those that
// a command takes for itself; a second one ends the program at once.
func WithSignals(parent context.Context, stderr io.Writer) (context.Context, func()) {
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
				err := &SignalError{sig}
				if !first {
					os.Exit(err.Code())
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

// Unreachable reports errors of the service of a model: there is no such model, or none for us, or the service fails.
func Unreachable(err error) bool {
	if _, _, away := llm.Outage(err); away {
		return true
	}
	for _, kind := range []error{llm.ErrUnreachable, llm.ErrAuth, llm.ErrQuota, llm.ErrRateLimit, llm.ErrNotFound, llm.ErrIdle, llm.ErrStreamCut, llm.ErrBadResponse, llm.ErrTooLarge} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
