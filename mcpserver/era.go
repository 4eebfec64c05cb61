package mcpserver

import (
	"bytes"
	"slices"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// client is what a client has said of itself; it does not change.
type client struct {
	info         mcp.Implementation
	capabilities *mcp.ClientCapabilities
	level        mcp.LogLevel // of a modern request: "" for no log messages

	raw []byte // the _meta it was read from, of a modern request
}

// handshake is what initialize has negotiated.
type handshake struct {
	version mcp.Version
	client  *client
}

func (s *session) inboundRequest(a *arrival) inbound.Request {
	return inbound.Request{ID: a.ID, Method: a.Method, Unlisted: s.stateless}
}

// admitLegacy checks a request without the _meta of 2026-07-28.
func (s *session) admitLegacy(a *arrival) error {
	h := s.legacy.Load()
	switch {
	case a.Method == mcp.MethodInitialize:
		return nil
	case h != nil:
		a.version, a.client = h.version, h.client
		return offers(h.version, a.Method)
	case a.Method == mcp.MethodPing: // PING-01
		return s.speaksLegacy(a.Method)
	case a.Method == mcp.MethodDiscover: // it is modern or nothing (MOD-01)
		return mcp.Errorf(mcp.CodeInvalidParams, "the request has no _meta %s", mcp.MetaProtocolVersion)
	case s.server.newestLegacy() == "":
		return mcp.Errorf(mcp.CodeInvalidParams, "the request has no _meta %s", mcp.MetaProtocolVersion)
	}
	return mcp.Errorf(mcp.CodeInvalidRequest, "the session is not initialized") // ERA-11
}

// speaksLegacy refuses a legacy method of a server that only speaks 2026-07-28.
func (s *session) speaksLegacy(method string) error {
	if s.server.newestLegacy() == "" {
		return offers(mcp.Latest, method)
	}
	return nil
}

// newestLegacy returns the newest revision with a handshake that we speak, or "".
func (s *Server) newestLegacy() mcp.Version {
	v, _ := mcp.Newest(s.opts.Versions, mcp.LegacyVersions())
	return v
}

// capabilities are what revision v hears of us. A client of 2026-07-28 would
// learn of changes on a listen stream, which we do not offer (CAP-07).
func (s *Server) capabilities(v mcp.Version) mcp.ServerCapabilities {
	return mcp.ServerCapabilities{
		Tools:   &mcp.ToolsCapability{ListChanged: v.Era() == mcp.EraLegacy},
		Logging: mcp.Present,
	}
}

// initialize opens the legacy session of this connection (LIFE-01 to LIFE-05).
func (s *session) initialize(a *arrival) ([]byte, error) {
	if _, ok := a.port.(*batch); ok {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "initialize must not be part of a batch") // BASE-21
	}
	var p mcp.InitializeParams
	if err := a.DecodeParams(&p); err != nil {
		return nil, err
	}
	v := p.ProtocolVersion
	if v.Era() != mcp.EraLegacy || !slices.Contains(s.server.opts.Versions, v) {
		v = s.server.newestLegacy() // LIFE-03, LIFE-13
	}
	if v == "" {
		return nil, mcp.UnsupportedVersion(p.ProtocolVersion, s.server.opts.Versions) // MOD-10
	}
	result, err := mcp.MarshalResult(&mcp.InitializeResult{
		ProtocolVersion: v,
		Capabilities:    s.server.capabilities(v),
		ServerInfo:      s.server.info,
		Instructions:    s.server.opts.Instructions,
	}, v)
	if err != nil {
		return nil, err
	}
	h := &handshake{version: v, client: &client{info: p.ClientInfo, capabilities: &p.Capabilities}}
	s.told.CompareAndSwap(nil, s.server.tools.Load())
	if !s.legacy.CompareAndSwap(nil, h) {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "the session is initialized already") // LIFE-10
	}
	return result, nil
}

// setLevel chooses which log messages the session gets (LOG-03).
func (s *session) setLevel(a *arrival) ([]byte, error) {
	var p mcp.SetLevelParams
	if err := a.DecodeParams(&p); err != nil {
		return nil, err
	}
	s.level.Store(&p.Level)
	return []byte("{}"), nil
}

// admitModern checks a request that names its own revision (MOD-01, MOD-02).
func (s *session) admitModern(a *arrival) error {
	switch {
	case a.Version == "":
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta %s is not a string", mcp.MetaProtocolVersion)
	case a.Version.Era() != mcp.EraModern || !slices.Contains(s.server.opts.Versions, a.Version):
		return mcp.UnsupportedVersion(a.Version, s.server.opts.Versions) // ERA-13
	}
	a.version = a.Version
	if err := offers(a.version, a.Method); err != nil { // MOD-09
		return err
	}
	var err error
	a.client, err = s.sender(a.Meta)
	return err
}

// sender reads who sends a modern request. The same bytes are read once: most
// clients say the same with each request.
func (s *session) sender(raw []byte) (*client, error) {
	if c := s.modern.Load(); c != nil && bytes.Equal(c.raw, raw) {
		return c, nil
	}
	var meta mcp.Meta
	if err := mcp.Unmarshal(raw, &meta); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "_meta is malformed")
	}
	c := &client{raw: bytes.Clone(raw)}
	var err error
	if c.capabilities, err = meta.ClientCapabilities(); err != nil {
		return nil, err
	}
	if c.level, err = meta.LogLevel(); err != nil {
		return nil, err
	}
	if info := meta.ClientInfo(); info != nil {
		c.info = *info
	}
	s.modern.Store(c)
	return c, nil
}

// discover describes the server (MOD-04).
func (s *session) discover(a *arrival) ([]byte, error) {
	ttl := s.server.opts.CacheFor.Milliseconds()
	result, err := mcp.MarshalResult(&mcp.DiscoverResult{
		SupportedVersions: s.server.opts.Versions,
		Capabilities:      s.server.capabilities(a.version),
		Instructions:      s.server.opts.Instructions,
		TTLMs:             &ttl,
		CacheScope:        mcp.CachePublic,
	}, a.version)
	return s.server.withMeta(result, a.version), err
}
