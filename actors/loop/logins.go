package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Login is what a run waits for at a server that it cannot use before: a person logs in there,
// with another program. The run has one question for each such server, which the login
// settles.
type Login struct {
	Server, Origin string
	Payload        json.RawMessage // of the question, as it is to be shown
	Hash           string          // of what is shown
	// Wait has resume called once: with nil when the server can be used, else with why it
	// cannot. Leave gives the wait up. Neither may block.
	Wait func(resume func(error)) (leave func())
}

// LoginTools are Tools of servers that may want a login. Logins is called after each Offer, and
// returns those whose tools it lacks for want of one.
type LoginTools interface {
	Tools
	Logins(ctx context.Context) []Login
}

// maxLogins bounds the questions of one run for the login at one server: those before a turn, and
// of those for its calls the ones that no login has settled.
const maxLogins = 3

// Messages.
type (
	// loginWait is from a call: it waits for the login.
	loginWait struct {
		call   *call
		login  Login
		resume func(error)
	}
	loginLeft struct{ wait *loginWait }
	// loggedIn is the end of [Login.Wait].
	loggedIn struct {
		open *openLogin
		err  error
	}
)

// AwaitLogin has the run ask for a login, unless it does already, and calls resume with nil when
// there is one, or else with the reason why there is none, on the run's goroutine: it must not
// block. Leave gives the wait up, and with the last one the question. It does not wait itself.
func (c *Call) AwaitLogin(l Login, resume func(error)) (leave func()) {
	if c.call == nil {
		resume(fmt.Errorf("%w: it has no run", ErrNotAsked))
		return func() {}
	}
	w := &loginWait{c.call, l, resume}
	c.run.Send(w)
	return func() { c.run.Send(loginLeft{w}) }
}

// openLogin is a server that is waited for.
type openLogin struct {
	server string
	ask    *openAsk
	leave  func() // gives the wait up; nil once it is over
	err    error  // why there will be no login
	// withdrawn says that the last call that waited has left.
	withdrawn bool
	// Either calls wait for it, or the next turn, for its tools.
	waits   []*loginWait
	listing bool
}

// logins are the servers that the run waits for.
type logins struct {
	*parts
	open    map[string]*openLogin // by server
	asked   map[string]int        // see maxLogins, by server
	without map[string]bool       // servers whose tools the run does without
	refused map[string]refusedLogin
	n       int
}

// refusedLogin is the end of a question without a login: it is not asked again in the same turn.
type refusedLogin struct {
	turn *turn
	why  error
}

// receive takes the messages of the logins, and reports whether msg was one.
func (ls *logins) receive(c *actors.Context, msg any) bool {
	switch m := msg.(type) {
	case *loginWait:
		ls.join(c, m)
	case loginLeft:
		ls.left(c, m.wait)
	case loggedIn:
		ls.ended(c, m)
	default:
		return false
	}
	return true
}

// add makes the question for a login.
func (ls *logins) add(c *actors.Context, l Login) (*openLogin, runlog.Entry, error) {
	if ls.asked[l.Server] >= maxLogins {
		return nil, runlog.Entry{}, fmt.Errorf("%w: the run has asked for this login %d times", ErrNotAsked, maxLogins)
	}
	if ls.open == nil {
		ls.open, ls.asked = make(map[string]*openLogin), make(map[string]int)
		ls.without, ls.refused = make(map[string]bool), make(map[string]refusedLogin)
	}
	o := &openLogin{server: l.Server}
	o.ask = &openAsk{login: o, row: ls.cfg.question(runlog.AskLogin, fmt.Sprintf("%s-login-%d", ls.cfg.Nonce, ls.n+1)),
		then: func(c *actors.Context, d store.Decision, entries []runlog.Entry) { ls.settled(c, o, d, entries) }}
	row := &o.ask.row
	row.Server, row.Origin, row.Payload, row.Hash = l.Server, l.Origin, l.Payload, l.Hash
	if err := row.Check(); err != nil {
		return nil, runlog.Entry{}, fmt.Errorf("%w: %w", ErrNotAsked, err)
	}
	ls.n++
	ls.open[l.Server] = o
	self := c.Self()
	o.leave = l.Wait(func(err error) { self.Send(loggedIn{o, err}) })
	return o, ls.asks.add(o.ask), nil
}

// await asks for the logins that the tools of the next turn lack, and reports whether the run
// waits for one.
func (ls *logins) await(c *actors.Context, lacking []Login) bool {
	var entries []runlog.Entry
	var asks []*openAsk
	for _, l := range lacking {
		if ls.cfg.Journal == nil || ls.without[l.Server] {
			continue
		}
		o, entry, err := ls.add(c, l)
		if err != nil {
			c.Log().Warn("a login is not asked for", "run", ls.cfg.ID, "server", l.Server, "error", err)
			continue
		}
		o.listing = true
		ls.asked[l.Server]++
		entries, asks = append(entries, entry), append(asks, o.ask)
	}
	if asks == nil {
		return false
	}
	ls.journal.WriteBatch(c, journal.Batch{State: store.Waiting, Then: func(c *actors.Context) { ls.asks.stored(c, asks...) }}, entries...)
	return true
}

// join has a call wait for a login.
func (ls *logins) join(c *actors.Context, w *loginWait) {
	switch {
	case ls.cfg.Journal == nil:
		w.resume(fmt.Errorf("%w: the run has no person to ask", ErrNotAsked))
		return
	case ls.parking.on && !ls.finishing() && w.call.turn == ls.turn && w.call.phase == sent: // the call waits until it is left
		return
	case ls.out != nil, ls.turn == nil, w.call.turn != ls.turn, w.call.phase != sent:
		w.resume(fmt.Errorf("%w: the call or its run has ended", ErrNotAsked))
		return
	}
	if no := ls.refused[w.login.Server]; no.turn == ls.turn {
		w.resume(no.why)
		return
	}
	if o := ls.open[w.login.Server]; o != nil {
		o.waits = append(o.waits, w)
		return
	}
	o, entry, err := ls.add(c, w.login)
	if err != nil {
		w.resume(err)
		return
	}
	o.waits = []*loginWait{w}
	ls.calls.advance(c, entry)
}

// left ends the wait of one call.
func (ls *logins) left(c *actors.Context, w *loginWait) {
	if o := ls.open[w.login.Server]; o != nil {
		ls.leave(c, o, func(other *loginWait) bool { return other == w })
	}
}

// returned ends all waits of a call that has returned.
func (ls *logins) returned(c *actors.Context, cl *call) {
	for _, o := range ls.open {
		ls.leave(c, o, func(w *loginWait) bool { return w.call == cl })
	}
}

// leave ends the waits of o that fit, and withdraws the question with the last one.
func (ls *logins) leave(c *actors.Context, o *openLogin, fits func(*loginWait) bool) {
	o.waits = slices.DeleteFunc(o.waits, fits)
	if ls.out == nil && len(o.waits) == 0 && !o.listing && !o.withdrawn {
		o.withdrawn = true
		ls.settle(c, o, store.Decision{Status: store.AskCancelled, By: "runtime", Answer: runlog.DeclineAnswer("no call waits for it any more")})
	}
}

// ended settles the question of a login.
func (ls *logins) ended(c *actors.Context, m loggedIn) {
	o := m.open
	if o.ask.settled || ls.out != nil {
		return
	}
	o.leave = nil
	if o.err = m.err; o.err != nil {
		ls.settle(c, o, store.Decision{Status: store.AskCancelled, By: "runtime", Answer: runlog.DeclineAnswer(o.err.Error())})
		return
	}
	ls.settle(c, o, store.Decision{Status: store.AskAccepted, By: "login", Scope: "once"})
}

func (ls *logins) settle(c *actors.Context, o *openLogin, d store.Decision) {
	ls.asks.answer(c, answer{ask: o.ask.row.ID, decision: d, reply: new(actors.Reply[store.Ask])})
}

// settled goes on with the calls, or the turn, that waited for the login.
func (ls *logins) settled(c *actors.Context, o *openLogin, d store.Decision, entries []runlog.Entry) {
	delete(ls.open, o.server)
	o.giveUp()
	err := o.why(d)
	if !o.listing {
		if err != nil && !o.withdrawn {
			ls.asked[o.server]++
			ls.refused[o.server] = refusedLogin{ls.turn, err}
		}
		ls.calls.advance(c, entries...)
		for _, w := range o.waits {
			if o.withdrawn { // it has come since
				ls.join(c, w)
			} else {
				w.resume(err)
			}
		}
		return
	}
	if err != nil {
		ls.without[o.server] = true
	}
	ls.journal.WriteBatch(c, journal.Batch{State: ls.asks.state(), Then: func(c *actors.Context) {
		if ls.out == nil && len(ls.open) == 0 {
			ls.run.list(c)
		}
	}}, entries...)
}

// why returns nil if the server is to be tried again, else the reason why not.
func (o *openLogin) why(d store.Decision) error {
	switch reason := runlog.Reason(d.Answer); {
	case d.Status == store.AskAccepted: // by the login, or by a person who knows of one
		return nil
	case o.err != nil:
		return o.err
	case d.Status == store.AskExpired:
		return errors.New("no person has logged in in time")
	case d.Status == store.AskCancelled:
		return errors.New("the question for the login was withdrawn")
	case reason != "":
		return errors.New("the user declined to log in: " + clip.Short(reason))
	}
	return errors.New("the user declined to log in")
}

func (o *openLogin) giveUp() {
	if o.leave != nil {
		o.leave()
		o.leave = nil
	}
}

// giveUpAll ends all waits, as the run ends.
func (ls *logins) giveUpAll() {
	for _, o := range ls.open {
		o.giveUp()
	}
}
