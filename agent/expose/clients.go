package expose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/troupe-dev/troupe/mcpserver"
)

// errTooMany refuses a client, errIdle ends one.
var (
	errTooMany = errors.New("there are too many clients")
	errIdle    = errors.New("the client was idle for too long")
	errCrowded = errors.New("the client had to make room for others")
)

// admit takes an upstream in, busy. Beyond the bound the longest idle gives way: one that
// has no session, or whose session was opened and never used (SECA-9). A principal without
// sessions has a share of the room, or it would drive out all others by declaring ever
// other capabilities.
func (f *Front) admit(u *upstream) error {
	f.mu.Lock()
	var out *upstream
	err := func() error {
		if f.closed {
			return ErrClosed
		}
		if len(f.ending) >= f.opts.MaxClients { // those that gave way take their time to end
			return errTooMany
		}
		if u.key != "" && f.share(u) {
			if out = f.idlest(func(o *upstream) bool { return o.key != "" && principalID(o.principal) == principalID(u.principal) }); out == nil {
				return errTooMany
			}
		}
		if out == nil && len(f.all)+len(f.ending) >= f.opts.MaxClients {
			if out = f.idlest(func(o *upstream) bool { return o.key != "" || !o.used }); out == nil {
				return errTooMany
			}
		}
		if out != nil {
			f.drop(out) // now, or it might be found once more
		}
		f.all[u] = struct{}{}
		if u.key != "" {
			f.keyed[u.key] = u
		}
		u.busy = 1
		return nil
	}()
	f.mu.Unlock()
	if out != nil {
		out.end(errCrowded)
	}
	return err
}

// share reports whether the principal of a stateless client has as many as it may. It is
// called under the lock.
func (f *Front) share(u *upstream) bool {
	n := 0
	for _, o := range f.keyed {
		if principalID(o.principal) == principalID(u.principal) {
			n++
		}
	}
	return n >= max(f.opts.MaxClients/4, 1)
}

// idlest returns the longest idle of those that fit, nil if none is idle. It is called
// under the lock.
func (f *Front) idlest(fits func(*upstream) bool) (found *upstream) {
	for u := range f.all {
		if u.busy == 0 && !u.working() && fits(u) && (found == nil || u.idle.Before(found.idle)) {
			found = u
		}
	}
	return found
}

// use keeps an upstream from being idle until done.
func (f *Front) use(u *upstream) {
	u.busy++
	u.used = true
}

func (f *Front) done(u *upstream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u.busy--
	u.idle = time.Now()
	f.tick()
}

// touch starts the time anew in which an upstream may be idle.
func (f *Front) touch(u *upstream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u.idle = time.Now()
}

// tick has the clock run while there is anybody who may be idle. It is called under the
// lock.
func (f *Front) tick() {
	if f.clock != nil || f.closed {
		return
	}
	switch {
	case len(f.sessions) > 0 && f.opts.IdleServers > 0:
		f.clock = time.AfterFunc(min(f.opts.IdleClient, f.opts.IdleServers)/4, f.sweep)
	case len(f.keyed) > 0:
		f.clock = time.AfterFunc(f.opts.IdleClient/4, f.sweep)
	}
}

// sweep ends the stateless clients that have been idle for long, and the connections of
// those that keep their session.
func (f *Front) sweep() {
	f.mu.Lock()
	f.clock = nil
	var out []*upstream
	now := time.Now()
	ends := f.restSessions(now)
	for _, u := range f.keyed {
		if u.busy == 0 && now.Sub(u.idle) >= f.opts.IdleClient && !u.working() {
			out = append(out, u)
			f.drop(u) // now, or it might be found once more
		}
	}
	f.tick()
	f.mu.Unlock()
	for _, u := range out {
		u.end(errIdle)
	}
	for _, end := range ends {
		end()
	}
}

// restSessions takes their connections from the clients with a session that are idle, and
// returns what ends those. It is called under the lock.
func (f *Front) restSessions(now time.Time) (ends []func()) {
	if f.opts.IdleServers < 0 || f.closed {
		return nil
	}
	for _, u := range f.sessions {
		if u.busy > 0 || u.working() || u.server.InUse() {
			u.idle = now
			continue
		}
		if now.Sub(u.idle) < f.opts.IdleServers {
			continue
		}
		if end := u.detach(); end != nil {
			f.log.Info("a client is idle: its connections to the servers end, and are made anew when it comes back", "client", u.name())
			ends = append(ends, end)
		}
	}
	return ends
}

// forget takes an upstream off all tables, once: nobody new finds it.
func (f *Front) forget(u *upstream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.drop(u)
}

// drop is forget, called under the lock.
func (f *Front) drop(u *upstream) bool {
	if _, there := f.all[u]; !there {
		return false
	}
	delete(f.all, u)
	f.ending[u] = struct{}{}
	if u.key != "" && f.keyed[u.key] == u {
		delete(f.keyed, u.key)
	}
	for _, table := range []map[string]*upstream{f.sessions, f.streams} {
		if table[u.session] == u {
			delete(table, u.session)
		}
	}
	return true
}

// gone is told that all of an upstream has ended.
func (f *Front) gone(u *upstream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ending, u)
}

// Clients returns how many clients there are.
func (f *Front) Clients() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

// ServeStdio serves the client at the other end of standard input and output, until it
// hangs up or ctx ends. Nothing else may be written to standard output meanwhile
// (STDIO-03).
func (f *Front) ServeStdio(ctx context.Context) error {
	return f.pipe(func(s *mcpserver.Server) error { return s.ServeStdio(ctx) })
}

// Serve serves one client over a pair of byte streams, as [mcpserver.Server.Serve] does.
// Both eras are spoken on it. It may be called many times at once.
func (f *Front) Serve(ctx context.Context, in io.Reader, out io.WriteCloser) error {
	return f.pipe(func(s *mcpserver.Server) error { return s.Serve(ctx, in, out) })
}

func (f *Front) pipe(serve func(*mcpserver.Server) error) error {
	u, err := f.open(f.opts.Server.Principal, "")
	if err != nil {
		return fmt.Errorf("expose: %w", err)
	}
	f.mu.Lock()
	u.used = true
	f.mu.Unlock()
	err = serve(u.server)
	u.close(errHungUp)
	<-u.over // bounded by the ends of its parts
	return err
}

// Close ends all runs and calls in flight and all clients. It waits a few seconds at most.
func (f *Front) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	now, end := context.WithCancel(ctx)
	end()
	return f.shutdown(now, ctx)
}

// Shutdown takes no new clients and no more calls, lets those in flight end until ctx
// does, and ends all clients. Later calls wait for the same.
func (f *Front) Shutdown(ctx context.Context) error {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		cancel()
		bound, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(closeTime))
		defer cancel()
	}
	return f.shutdown(ctx, bound)
}

// shutdown lets calls end until calm does, and waits for the rest until bound does.
func (f *Front) shutdown(calm, bound context.Context) error {
	f.making.Lock() // who is being let in is ended, too
	f.mu.Lock()
	f.closed = true
	if f.clock != nil {
		f.clock.Stop()
		f.clock = nil
	}
	all := make([]*upstream, 0, len(f.all)+len(f.ending))
	for u := range f.all {
		all = append(all, u)
	}
	open := len(all)
	for u := range f.ending {
		all = append(all, u)
	}
	f.mu.Unlock()
	f.making.Unlock()

	calmed := make(chan struct{}, open)
	for _, u := range all[:open] {
		f.rt.System().Go("expose", func() {
			_ = u.server.Shutdown(calm) // of what was cut off its calls are told
			u.close(ErrClosed)
			calmed <- struct{}{}
		})
	}
	errs := []error{f.lobby.Shutdown(calm)}
	for range open {
		select {
		case <-calmed:
		case <-bound.Done():
		}
	}
	f.errands.close()
	for _, u := range all {
		select {
		case <-u.over:
		case <-bound.Done():
			errs = append(errs, fmt.Errorf("expose: a client of %q has not ended: %w", u.name(), context.Cause(bound)))
		}
	}
	return errors.Join(errs...)
}
