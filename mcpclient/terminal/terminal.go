// Package terminal asks a person on a terminal, line by line.
//
// A [Prompter] is a [mcpclient.Human]. It shows who asks as the configuration
// names it, what for, and all of what is to be decided; then it asks:
//
//	p := terminal.New(terminal.Options{})
//	host, err := mcpclient.NewHost(ctx, servers, &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{Human: p}}})
//
// # What is promised
//
//   - Nothing is accepted by an empty line, by the end of the input, without a
//     terminal, or by what was typed before the question was shown.
//   - Accepting is possible only after the whole has been shown, page by page.
//     Declining and dismissing always are.
//   - What a server wrote stands behind a bar on each line, without control
//     characters, escape sequences and hidden letters; the program's own
//     lines have no bar. No text is made a link.
//   - One question is shown at a time. A question that is withdrawn says so, and the
//     line that was being typed for it answers no other.
//
// A Prompter may be used by any number of goroutines. It reads its input from the
// first question on and keeps reading: no other code should; see [Prompter.Ask].
package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/term"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// ErrNoTerminal is the error of a question where there is no person to answer it. It is
// never taken for a yes.
var ErrNoTerminal = errors.New("there is no terminal to ask on")

// Options changes how a Prompter works. The zero value asks on stdin and stderr.
type Options struct {
	// In is where answers come from. Nil means os.Stdin.
	In io.Reader
	// Out is where questions are shown. Nil means os.Stderr: stdout is for results.
	Out io.Writer
	// Terminal says that In and Out are a terminal although they do not look like one
	// (a session from elsewhere, a test). Otherwise both must be files that are.
	Terminal bool
	// Size returns the columns and rows of the terminal. Nil asks the terminal, or
	// means 80 and 24.
	Size func() (columns, rows int)
	// Begin is called before a question is shown, End after it is over: to make room
	// on the screen. Nil does nothing.
	Begin, End func()
	// DeclineAll hears that no more questions of a server are to be asked. The
	// Prompter itself declines them from then on. Nil does nothing.
	DeclineAll func(server string)
}

// Prompter asks a person on a terminal.
type Prompter struct {
	opts     Options
	in       *input
	terminal bool
	turn     chan struct{} // holds the question that is shown

	declined  sync.Map                                // servers
	waiting   atomic.Int32                            // questions that wait for the turn, without those about pages
	served    chan struct{}                           // has a value once one of them waits no longer
	setAside  atomic.Pointer[context.CancelCauseFunc] // of the page that is shown; nil for none
	withdrawn bool                                    // a question ended while a line was awaited; of the question that has the turn
}

// New returns a Prompter. It does not read or write before the first question.
func New(o Options) *Prompter {
	if o.In == nil {
		o.In = os.Stdin
	}
	if o.Out == nil {
		o.Out = os.Stderr
	}
	p := &Prompter{opts: o, turn: make(chan struct{}, 1), served: make(chan struct{}, 1)}
	in, inOK := terminalOf(o.In)
	out, outOK := terminalOf(o.Out)
	p.terminal = o.Terminal || inOK && outOK
	if p.opts.Size == nil && outOK {
		p.opts.Size = func() (int, int) {
			w, h, err := term.GetSize(int(out.Fd()))
			if err != nil {
				return 0, 0
			}
			return w, h
		}
	}
	p.in = &input{from: o.In, wake: make(chan struct{}, 1)}
	if inOK {
		p.in.terminal = in
	}
	return p
}

func terminalOf(v any) (*os.File, bool) {
	f, ok := v.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// Terminal reports whether there is a terminal to ask on.
func (p *Prompter) Terminal() bool { return p.terminal }

// Decide implements [mcpclient.Human]. It waits for its turn, for the person and for
// ctx. The errors are [ErrNoTerminal], the cause of ctx, and those of writing.
func (p *Prompter) Decide(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	if !p.terminal {
		return nil, ErrNoTerminal
	}
	if ask.Kind == mcpclient.AskPage {
		return p.AwaitPage(ctx, ask)
	}
	if p.isDeclined(ask.Server) {
		return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
	}
	var d *mcpclient.Decision
	err := p.exclusive(ctx, func(s *screen) (err error) {
		if p.isDeclined(ask.Server) { // meanwhile
			d = &mcpclient.Decision{Action: mcp.ActionDecline}
			return nil
		}
		d, err = p.decide(s, ask)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Ask shows one line and returns what is typed behind it: for programs with
// questions of their own, which must not read the input beside a Prompter. The text
// before it, of any number of lines, is shown as it is, page by page; what others have
// written belongs behind a [Bar], and into package sanitize's hands. The error is
// io.EOF at the end of the input.
func (p *Prompter) Ask(ctx context.Context, text, prompt string) (line string, err error) {
	if !p.terminal {
		return "", ErrNoTerminal
	}
	err = p.exclusive(ctx, func(s *screen) (err error) {
		s.mixed(text)
		line, err = s.read(prompt)
		return err
	})
	return line, err
}

// errSetAside withdraws a page for as long as a question is shown.
var errSetAside = errors.New("another question comes first")

// AwaitPage implements [mcpclient.PageHuman]: it shows a page that is open until the
// person retries it or gives it up, or ctx ends. Questions come before it, and it is
// shown again after them.
func (p *Prompter) AwaitPage(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	if !p.terminal {
		return nil, ErrNoTerminal
	}
	for {
		if err := p.noneWaits(ctx); err != nil {
			return nil, err
		}
		shown, cancel := context.WithCancelCause(ctx)
		yields := func() {
			p.setAside.Store(&cancel)
			if p.waiting.Load() > 0 { // a question that comes later finds setAside
				cancel(errSetAside)
			}
		}
		var d *mcpclient.Decision
		err := p.taking(shown, yields, func(s *screen) (err error) {
			d, err = p.decide(s, ask)
			return err
		})
		p.setAside.CompareAndSwap(&cancel, nil)
		aside := errors.Is(context.Cause(shown), errSetAside)
		cancel(nil)
		switch {
		case err == nil:
			return d, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !aside:
			return nil, err
		}
	}
}

// noneWaits waits until no question waits for its turn, which a page would take from it.
func (p *Prompter) noneWaits(ctx context.Context) error {
	for p.waiting.Load() > 0 {
		select {
		case <-p.served:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	p.notifyPage() // another one, that waits, too
	return nil
}

// notifyPage has a page that waits in noneWaits look again.
func (p *Prompter) notifyPage() {
	select {
	case p.served <- struct{}{}:
	default: // it is notified
	}
}

// exclusive runs one question at a time, in the order of their coming. Pages make room.
func (p *Prompter) exclusive(ctx context.Context, f func(*screen) error) error {
	p.waiting.Add(1)
	if setAside := p.setAside.Load(); setAside != nil {
		(*setAside)(errSetAside)
	}
	waits := sync.OnceFunc(func() {
		p.waiting.Add(-1)
		p.notifyPage()
	})
	defer waits()
	return p.taking(ctx, waits, f)
}

// taking calls begins and then f once it is its turn. If ctx has ended by then, nothing is shown.
func (p *Prompter) taking(ctx context.Context, begins func(), f func(*screen) error) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if begins(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.opts.Begin != nil {
		p.opts.Begin()
	}
	if p.opts.End != nil {
		defer p.opts.End()
	}
	s := &screen{ctx: ctx, out: p.opts.Out, in: p.in, size: p.opts.Size}
	p.in.begin()
	if err := p.afterWithdrawn(s); err != nil {
		return err
	}
	err := f(s)
	if ctx.Err() != nil && err != nil {
		s.remark("\n(The question is withdrawn: %v.)", clean(context.Cause(ctx).Error()))
	}
	return cmp.Or(err, s.err)
}

// afterWithdrawn keeps the line that a person was typing for a question that was
// withdrawn from answering the next.
func (p *Prompter) afterWithdrawn(s *screen) error {
	before := p.withdrawn
	p.withdrawn = false
	s.onWithdraw = func() { p.withdrawn = true }
	if !before {
		return nil
	}
	_, err := s.read("The question before this one was withdrawn. Press Enter to see the next: ")
	return err
}

func (p *Prompter) isDeclined(server string) bool {
	_, declined := p.declined.Load(server)
	return declined
}

// Allow lets the questions of a server be asked again after all were declined.
func (p *Prompter) Allow(server string) { p.declined.Delete(server) }

func (p *Prompter) declineAll(server string) {
	p.declined.Store(server, true)
	if p.opts.DeclineAll != nil {
		p.opts.DeclineAll(server)
	}
}

// decide asks one question.
func (p *Prompter) decide(s *screen, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	q := &question{screen: s, ask: ask, server: clean(ask.Server)}
	d, err := q.run()
	if errors.Is(err, io.EOF) {
		s.remark("\n(The end of the input: dismissed.)")
		return &mcpclient.Decision{Action: mcp.ActionCancel}, nil
	}
	l, early := errors.AsType[*leave](err)
	if !early {
		if d != nil {
			d.Hash = ask.Hash // it was about exactly this (SECA-41)
		}
		return d, err
	}
	switch {
	case l.all:
		p.declineAll(ask.Server)
		s.remark("(Declined; no more questions of %s will be shown.)", q.server)
	default:
		s.remark("(%s)", map[string]string{mcp.ActionDecline: "Declined.", mcp.ActionCancel: "Dismissed."}[l.action])
	}
	return &mcpclient.Decision{Action: l.action}, nil
}

func (q *question) run() (*mcpclient.Decision, error) {
	a := q.ask
	switch {
	case a.Kind == mcpclient.AskForm && a.Form != nil:
		return q.form()
	case a.Kind == mcpclient.AskURL && a.URL != nil:
		return q.url()
	case a.Kind == mcpclient.AskPage && a.URL != nil:
		return q.page()
	case a.Kind == mcpclient.AskLogin && a.Login != nil:
		return q.login()
	case a.Kind == mcpclient.AskSampling && a.Sampling != nil:
		return q.sampling()
	case a.Kind == mcpclient.AskSample && a.Sample != nil:
		return q.sample()
	case a.Kind == mcpclient.AskTool && a.Tool != nil:
		return q.tool()
	}
	return nil, fmt.Errorf("asking on the terminal: the question %q of the kind %s has nothing to ask", a.ID, a.Kind)
}
