package main

import (
	"os"

	"golang.org/x/term"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// newPrompter returns what asks on the terminal; nil if there is none. Nobody else
// may read stdin then. Clear makes room before a question; it may be nil.
func (p *program) newPrompter(clear func()) *terminal.Prompter {
	stderr, ok := p.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(stderr.Fd())) || !term.IsTerminal(int(p.stdin.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return terminal.New(terminal.Options{In: p.stdin, Out: stderr, Begin: clear})
}

// askOptions lets servers ask the user, if there is a terminal to ask on: otherwise
// they are told that nobody is there.
func (p *program) askOptions() mcpclient.AskOptions {
	if prompter := p.newPrompter(nil); prompter != nil {
		return mcpclient.AskOptions{Human: prompter}
	}
	return mcpclient.AskOptions{}
}
