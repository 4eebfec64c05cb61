// Package pins holds tools to the definitions that they had when they were first called, or
// last accepted (SECA-38).
package pins

import (
	"context"
	"fmt"
	"sync"

	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/catalogue"
)

// maxSeen bounds the definitions that are kept.
const maxSeen = 2000

// Key is a tool of a server, by the names that the configuration and the server have for
// them.
type Key struct{ Server, Tool string }

// Store is where the hashes of the definitions are.
type Store interface {
	Pin(ctx context.Context, server, tool string) (hash string, ok bool, err error)
	SetPin(ctx context.Context, server, tool, hash string) error
}

// Pins are the tools of one host.
type Pins struct {
	store  Store
	busy   sync.Map            // by Key: the chan struct{} that the call which checks that tool closes when it is done
	before memo.Map[Key, seen] // what was called
}

// seen is a definition that was called, kept to be shown beside a new one.
type seen struct {
	hash string
	tool *mcp.Tool
}

// New returns the pins of a store.
func New(s Store) *Pins {
	p := &Pins{store: s}
	p.before.Max = maxSeen
	return p
}

// Check reports whether the tool may be called as it is now. The first call pins it, and a pin of an earlier
// rule that it still fits is renewed. Decided is the hash of the definition that the call was decided for,
// "" for one that was not. Of a tool that has changed, several calls ask but once: accept is called with the
// hash that is pinned, or decided, and its definition if that is known, and its error refuses.
func (p *Pins) Check(ctx context.Context, key Key, decided, now string, tool *mcp.Tool, accept func(hash string, before *mcp.Tool) error) error {
	other := decided != "" && decided != now
	hash, ok, err := p.pin(ctx, key)
	if err == nil && ok && hash == now && !other { // nearly always
		p.keep(key, now, tool)
		return nil
	}
	if err != nil {
		return err
	}
	done, err := p.take(ctx, key)
	if err != nil {
		return err
	}
	defer done()
	if hash, ok, err = p.pin(ctx, key); err != nil { // another call may have settled it
		return err
	}
	was := hash
	if !ok || catalogue.Is(hash, tool) {
		was = decided
	}
	if ok && !catalogue.Is(hash, tool) || other {
		if err := accept(was, p.known(key, was)); err != nil {
			return err
		}
	}
	if !ok || hash != now {
		if err := p.store.SetPin(ctx, key.Server, key.Tool, now); err != nil {
			return fmt.Errorf("pinning tool %q of server %s: %w", key.Tool, key.Server, err)
		}
	}
	p.keep(key, now, tool)
	return nil
}

// Pinned returns the hash that a tool is held to, "" for none, and its definition if that was called here.
func (p *Pins) Pinned(ctx context.Context, key Key) (hash string, tool *mcp.Tool, err error) {
	if hash, _, err = p.pin(ctx, key); err != nil || hash == "" {
		return "", nil, err
	}
	return hash, p.known(key, hash), nil
}

// pin asks the store.
func (p *Pins) pin(ctx context.Context, key Key) (string, bool, error) {
	hash, ok, err := p.store.Pin(ctx, key.Server, key.Tool)
	if err != nil {
		return "", false, fmt.Errorf("looking for the pin of tool %q of server %s: %w", key.Tool, key.Server, err)
	}
	return hash, ok, nil
}

// take waits until no other call checks the tool.
func (p *Pins) take(ctx context.Context, key Key) (done func(), err error) {
	for {
		mine := make(chan struct{})
		other, busy := p.busy.LoadOrStore(key, mine)
		if !busy {
			return func() { p.busy.Delete(key); close(mine) }, nil
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// known returns the definition of a hash, nil if it was not seen.
func (p *Pins) known(key Key, hash string) *mcp.Tool {
	if s, _ := p.before.Get(key); s.hash == hash {
		return s.tool
	}
	return nil
}

// keep remembers what is called.
func (p *Pins) keep(key Key, hash string, tool *mcp.Tool) {
	if s, _ := p.before.Get(key); s.hash == hash {
		return
	}
	own := *tool // not the whole catalogue
	p.before.Set(key, seen{hash, &own}, 0)
}
