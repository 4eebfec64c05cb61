package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Pins keeps in a store what the tools of these servers were when they were first
// called, or last accepted. A runtime with a store uses it unless
// [Options].Host has Pins of its own; a program needs it to accept a changed tool by
// itself, with SetPin and [mcpclient.HashTool].
//
// Servers of one name differ by their file, and those without a file by
// their command and folder, or their URL. What a server in this process offers is the
// program's own, and remembered only as long as the Pins.
func Pins(s store.Pins, servers []mcpclient.Server) mcpclient.PinStore {
	p := &storePins{store: s, sources: make(map[string]string, len(servers))}
	for i := range servers {
		p.sources[servers[i].Name] = pinSource(&servers[i])
	}
	return p
}

// storePins is the [mcpclient.PinStore] of [Pins].
type storePins struct {
	store   store.Pins
	sources map[string]string // by the server's name; "" for those that memory has
	memory  mcpclient.MemoryPins
}

// pinSource distinguishes a server from others of its name; "" if it is in this process.
func pinSource(s *mcpclient.Server) string {
	if s.File != "" {
		return s.File
	}
	if s.Command == "" && s.URL == "" {
		return ""
	}
	where := struct {
		URL, Command, Dir string
		Args              []string
	}{URL: s.URL, Command: s.Command, Dir: s.Dir, Args: s.Args}
	if s.Command != "" { // the same words mean another program in another folder
		if dir, err := filepath.Abs(s.Dir); err == nil {
			where.Dir = dir
		}
	}
	raw, err := jsonx.Marshal(where)
	if err != nil { // text that is not UTF-8
		raw = fmt.Appendf(nil, "%q", where)
	}
	sum := sha256.Sum256(raw) // not as it is: arguments may be long, and secret
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Pin implements [mcpclient.PinStore].
func (p *storePins) Pin(ctx context.Context, server, tool string) (string, bool, error) {
	source := p.sources[server]
	if source == "" {
		return p.memory.Pin(ctx, server, tool)
	}
	var pin store.Pin
	var ok bool
	err := untilTaken(ctx, func() (err error) { pin, ok, err = p.store.Pin(ctx, source, server, tool); return err })
	return pin.Hash, ok, err
}

// SetPin implements [mcpclient.PinStore].
func (p *storePins) SetPin(ctx context.Context, server, tool, hash string) error {
	source := p.sources[server]
	if source == "" {
		return p.memory.SetPin(ctx, server, tool, hash)
	}
	pin := store.Pin{Source: source, Server: server, Tool: tool, Hash: hash}
	return untilTaken(ctx, func() error { return p.store.SetPin(ctx, pin) })
}

// untilTaken does something with a store again as long as that is locked, full or out of reach: the
// run waits, as its journal does, and no call fails for it.
func untilTaken(ctx context.Context, do func() error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		if err := do(); !store.Passing(err) {
			return err
		} else if pause.For(ctx, wait) != nil {
			return err
		}
	}
}
