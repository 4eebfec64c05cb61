package main

import (
	"os"

	"golang.org/x/term"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// newPrompter returns what asks on the terminal; nil if there is none. Nobody else
// may read the terminal then. Clear makes room before a question; it may be nil.
func (p *program) newPrompter(clear func()) *terminal.Prompter {
	in, out := p.keyboard(), p.screen()
	if in == nil || out == nil {
		return nil
	}
	return terminal.New(terminal.Options{In: in, Out: out, Begin: clear})
}

// canAsk reports whether there is a terminal to ask on.
func (p *program) canAsk() bool { return p.keyboard() != nil && p.screen() != nil }

// keyboard is where a person types: stdin, or the terminal of the process where something
// else is piped into that. It is nil where there is none, or nothing to show questions on.
func (p *program) keyboard() *os.File {
	switch {
	case p.screen() == nil:
		return nil
	case p.stdin != nil && term.IsTerminal(int(p.stdin.Fd())):
		return p.stdin
	case p.tty == nil && !p.noTTY:
		f, err := openTTY()
		if p.noTTY = err != nil; err == nil {
			p.tty = f // open until the program ends: a read of it can not be given up
		}
	}
	return p.tty
}

// askOptions lets servers ask the user, if there is a terminal to ask on: otherwise
// they are told that nobody is there.
func (p *program) askOptions() mcpclient.AskOptions {
	if prompter := p.newPrompter(nil); prompter != nil {
		return mcpclient.AskOptions{Human: prompter}
	}
	return mcpclient.AskOptions{}
}
