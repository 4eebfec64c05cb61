// needed.go: pages that a handler needs visited and does not wait for.

package pages

import (
	"context"
	"maps"
	"time"
)

// Need is what a page is made for.
type Need struct {
	Session   Session // of a legacy client, which is notified of the end; else nil
	Principal string
	Key, URL  string
}

// made is a page that was made for a need.
type made struct {
	id    string
	until time.Time // when another one is made: a person needs time for the page
}

// maxNeeded bounds the pages that are remembered.
const maxNeeded = 1000

// For returns the page of a need: the open one, or a new one. A client that is not nil is
// notified of the end.
func (p *Pages) For(ctx context.Context, n Need, notified *Client) (id string, err error) {
	if id = p.made(n, notified != nil); id != "" {
		if done, err := p.done(ctx, n.Principal, id); err == nil && !done {
			return id, nil
		}
	}
	if id, err = p.Make(ctx, n.Principal); err != nil {
		return "", err
	}
	if notified != nil {
		if err := p.Announce(n.Principal, id, *notified); err != nil {
			return "", err
		}
	}
	if n.Session != nil || n.Principal != "" { // else it may be another client the next time
		p.remember(n, made{id, time.Now().Add(p.opts.Expiry / 2)})
	}
	return id, nil
}

// made returns the page that was made for a need, "" if there is none, or one of whose end
// the client is not notified although it is to be.
func (p *Pages) made(n Need, notified bool) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.needed[n]
	if _, announced := p.open[m.id]; notified && !announced || !time.Now().Before(m.until) {
		return ""
	}
	return m.id
}

// remember keeps a page for the next call; beyond the bound that gets a page of its own.
func (p *Pages) remember(n Need, m made) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.needed) >= maxNeeded {
		now := time.Now()
		maps.DeleteFunc(p.needed, func(_ Need, m made) bool { return !now.Before(m.until) })
	}
	if len(p.needed) < maxNeeded {
		p.needed[n] = m
	}
}
