package env

import (
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// NewPrompter returns what asks on the terminal; nil if there is none. Nothing else
// may read the terminal then. Clear makes room before a question; it may be nil.
func (e *Env) NewPrompter(clear func()) *terminal.Prompter {
	in, out := e.keyboard(), e.screen()
	if in == nil || out == nil {
		return nil
	}
	return terminal.New(terminal.Options{In: in, Out: out, Begin: clear})
}

// CanAsk reports whether there is a terminal to ask on.
func (e *Env) CanAsk() bool { return e.keyboard() != nil && e.screen() != nil }

// keyboard is where a person types: stdin, or the terminal of the process where something
// else is piped into that. It is nil where there is none, or nothing to show questions on.
func (e *Env) keyboard() *os.File {
	switch {
	case e.screen() == nil:
		return nil
	case e.Stdin != nil && term.IsTerminal(int(e.Stdin.Fd())):
		return e.Stdin
	case e.tty == nil && !e.noTTY:
		f, err := openTTY()
		if e.noTTY = err != nil; err == nil {
			e.tty = f // open until the program ends: a read of it cannot be given up
		}
	}
	return e.tty
}

// AskOptions lets servers ask the user, if there is a terminal to ask on: otherwise
// servers see a client without elicitation.
func (e *Env) AskOptions() mcpclient.AskOptions {
	if prompter := e.NewPrompter(nil); prompter != nil {
		return mcpclient.AskOptions{Human: prompter}
	}
	return mcpclient.AskOptions{}
}

// ErrExpired ends a question that waited for too long.
var ErrExpired = errors.New("the question was not answered in time")
