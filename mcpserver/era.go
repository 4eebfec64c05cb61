package mcpserver

import (
	"encoding/json"
	"slices"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/clients"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
)

// handshake is the result of initialize.
type handshake struct {
	version mcp.Version
	client  *clients.Client
	offered mcp.ServerCapabilities // for as long as the session lasts (CAP-08)
}

// admitLegacy checks a request without the _meta of 2026-07-28.
func admitLegacy(s *session, a *arrival) error {
	h := s.legacy.Load()
	switch {
	case a.Method == mcp.MethodInitialize:
		return nil
	case h != nil:
		a.version, a.client = h.version, h.client
		return s.server.offers(h.version, a.Method)
	case a.Method == mcp.MethodPing: // PING-01
		return speaksLegacy(s, a.Method)
	case a.Method == mcp.MethodDiscover: // it is modern or nothing (MOD-01)
		return mcp.Errorf(mcp.CodeInvalidParams, "the request has no _meta %s", mcp.MetaProtocolVersion)
	case s.server.newestLegacy() == "":
		return mcp.Errorf(mcp.CodeInvalidParams, "the request has no _meta %s", mcp.MetaProtocolVersion)
	}
	return mcp.Errorf(mcp.CodeInvalidRequest, "the session is not initialized") // ERA-11
}

// speaksLegacy refuses a legacy method if the server speaks only 2026-07-28.
func speaksLegacy(s *session, method string) error {
	if s.server.newestLegacy() == "" {
		return s.server.offers(mcp.Latest, method)
	}
	return nil
}

// newestLegacy returns the newest legacy revision that the server speaks; empty for none.
func (s *Server) newestLegacy() mcp.Version {
	v, _ := mcp.Newest(s.opts.Versions, mcp.LegacyVersions())
	return v
}

// capabilities returns the capabilities of revision v: those of all entries ever added (CAP-08).
func (s *Server) capabilities(v mcp.Version) mcp.ServerCapabilities {
	c := mcp.ServerCapabilities{Logging: mcp.Present}
	if s.hasTools() {
		c.Tools = &mcp.ToolsCapability{ListChanged: true}
	}
	if s.hasResources() {
		c.Resources = &mcp.ResourcesCapability{Subscribe: true, ListChanged: true}
	}
	if s.hasPrompts() {
		c.Prompts = &mcp.PromptsCapability{ListChanged: true}
	}
	if s.hasCompletions() {
		c.Completions = mcp.Present
	}
	if s.hasSkills() {
		c.Extensions = map[string]json.RawMessage{mcp.ExtensionSkills: json.RawMessage(`{"directoryRead":true}`)}
	}
	return *c.For(v)
}

// initialize opens the legacy session of this connection (LIFE-01 to LIFE-05).
func initialize(s *session, a *arrival) ([]byte, error) {
	if _, ok := a.port.(*port.Batch); ok {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "initialize must not be part of a batch") // BASE-21
	}
	g, err := readGreeting(s.server, a)
	if err != nil {
		return nil, err
	}
	v := g.Params.ProtocolVersion
	if v.Era() != mcp.EraLegacy || !slices.Contains(s.server.opts.Versions, v) {
		v = s.server.newestLegacy() // LIFE-03, LIFE-13
	}
	if v == "" {
		return nil, mcp.UnsupportedVersion(g.Params.ProtocolVersion, s.server.opts.Versions) // MOD-10
	}
	if s.legacy.Load() == nil {
		s.server.notices.Begin(s)
	}
	offered := s.server.capabilities(v)
	s.server.declareTasks(&offered, v, a.principal)
	result, err := mcp.MarshalResult(&mcp.InitializeResult{
		ProtocolVersion: v,
		Capabilities:    offered,
		ServerInfo:      s.server.info,
		Instructions:    s.server.opts.Instructions,
	}, v)
	if err != nil {
		return nil, err
	}
	h := &handshake{version: v, client: &g.Client, offered: offered}
	if !s.legacy.CompareAndSwap(nil, h) {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "the session is initialized already") // LIFE-10
	}
	return result, nil
}

// readGreeting decodes the params of initialize.
func readGreeting(s *Server, a *arrival) (*clients.Greeting, error) {
	g, keep, err := clients.ReadGreeting(a.Message, s.greeted.Load())
	if keep {
		s.greeted.Store(g)
	}
	return g, err
}

// setLevel sets the lowest level of log messages for the session (LOG-03).
func setLevel(s *session, a *arrival) ([]byte, error) {
	var p mcp.SetLevelParams
	if err := a.DecodeParams(&p); err != nil {
		return nil, err
	}
	s.level.Store(&p.Level)
	if s.server.opts.Events.OnLogLevel != nil && !s.stateless {
		s.server.opts.Events.OnLogLevel(&s.peer, p.Level)
	}
	return []byte("{}"), nil
}

// admitModern checks a request that names its own revision (MOD-01, MOD-02).
func admitModern(s *session, a *arrival) error {
	switch {
	case a.Version == "":
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta %s is not a string", mcp.MetaProtocolVersion)
	case a.Version.Era() != mcp.EraModern || !slices.Contains(s.server.opts.Versions, a.Version):
		return mcp.UnsupportedVersion(a.Version, s.server.opts.Versions) // ERA-13
	}
	a.version = a.Version
	if err := s.server.offers(a.version, a.Method); err != nil { // MOD-09
		return err
	}
	var err error
	a.client, err = s.senders.Read(a.Meta)
	return err
}

// discover describes the server (MOD-04).
func discover(s *session, a *arrival) ([]byte, error) {
	ttl := s.server.opts.Lists.CacheFor.Milliseconds()
	offered := s.server.capabilities(a.version)
	s.server.declareTasks(&offered, a.version, a.principal)
	result, err := mcp.MarshalResult(&mcp.DiscoverResult{
		SupportedVersions: s.server.opts.Versions,
		Capabilities:      offered,
		Instructions:      s.server.opts.Instructions,
		TTLMs:             &ttl,
		CacheScope:        s.server.listScope(),
	}, a.version)
	return s.server.identity.Finish(result, a.version), err
}
