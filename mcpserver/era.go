package mcpserver

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// client is what a client has said of itself; it does not change.
type client struct {
	info         mcp.Implementation
	capabilities *mcp.ClientCapabilities
	level        mcp.LogLevel // of a modern request: "" for no log messages

	// Of the sender of modern requests.
	said  []byte // the members of _meta that this was read from
	first []byte // the _meta that they came with first; nil if it was long
}

// handshake is what initialize has negotiated.
type handshake struct {
	version mcp.Version
	client  *client
	offered mcp.ServerCapabilities // for as long as the session lasts (CAP-08)
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
		return s.server.offers(h.version, a.Method)
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
		return s.server.offers(mcp.Latest, method)
	}
	return nil
}

// newestLegacy returns the newest revision with a handshake that we speak, or "".
func (s *Server) newestLegacy() mcp.Version {
	v, _ := mcp.Newest(s.opts.Versions, mcp.LegacyVersions())
	return v
}

// capabilities are what revision v hears of us: what was ever added (CAP-08).
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

func (s *Server) hasTools() bool { return s.opts.DeclareAll || s.tools.Declared() }
func (s *Server) hasResources() bool {
	return s.opts.DeclareAll || s.resources.Declared() || s.templates.Declared()
}

// hasSkills reports whether the Skills extension is declared: it is off until the
// first skill (EXT-02).
func (s *Server) hasSkills() bool { return s.skills.Declared() }

func (s *Server) hasPrompts() bool     { return s.opts.DeclareAll || s.prompts.Declared() }
func (s *Server) hasCompletions() bool { return s.opts.DeclareAll || s.suggests.Load() }

// initialize opens the legacy session of this connection (LIFE-01 to LIFE-05).
func (s *session) initialize(a *arrival) ([]byte, error) {
	if _, ok := a.port.(*batch); ok {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "initialize must not be part of a batch") // BASE-21
	}
	g, err := s.server.greeting(a)
	if err != nil {
		return nil, err
	}
	v := g.params.ProtocolVersion
	if v.Era() != mcp.EraLegacy || !slices.Contains(s.server.opts.Versions, v) {
		v = s.server.newestLegacy() // LIFE-03, LIFE-13
	}
	if v == "" {
		return nil, mcp.UnsupportedVersion(g.params.ProtocolVersion, s.server.opts.Versions) // MOD-10
	}
	if s.legacy.Load() == nil {
		s.readUp()
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
	h := &handshake{version: v, client: &g.client, offered: offered}
	if !s.legacy.CompareAndSwap(nil, h) {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "the session is initialized already") // LIFE-10
	}
	return result, nil
}

// greeting is what a legacy client says first.
type greeting struct {
	raw    []byte // nil if it is too long to compare others with
	params mcp.InitializeParams
	client client
}

// maxGreeting bounds what is kept to compare with, in bytes.
const maxGreeting = 4 << 10

// greeting reads the params of initialize. The same bytes are read once: many sessions
// are those of one program, and share what they say.
func (s *Server) greeting(a *arrival) (*greeting, error) {
	if g := s.greeted.Load(); g != nil && bytes.Equal(g.raw, a.Params) {
		return g, nil
	}
	g := new(greeting)
	if err := a.DecodeParams(&g.params); err != nil {
		return nil, err
	}
	if g.params.ProtocolVersion == "" && !namesAnyVersion(a.Params) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "initialize: protocolVersion is missing") // LIFE-01
	}
	g.client = client{info: g.params.ClientInfo, capabilities: &g.params.Capabilities}
	if 0 < len(a.Params) && len(a.Params) <= maxGreeting {
		g.raw = bytes.Clone(a.Params)
		s.greeted.Store(g)
	}
	return g, nil
}

// namesAnyVersion reports whether the params of initialize have a version, if only an
// empty one.
func namesAnyVersion(params []byte) bool {
	var p struct {
		ProtocolVersion *string `json:"protocolVersion"`
	}
	return jsonx.Unmarshal(params, &p) == nil && p.ProtocolVersion != nil
}

// setLevel chooses which log messages the session gets (LOG-03).
func (s *session) setLevel(a *arrival) ([]byte, error) {
	var p mcp.SetLevelParams
	if err := a.DecodeParams(&p); err != nil {
		return nil, err
	}
	s.level.Store(&p.Level)
	if s.server.opts.OnLogLevel != nil && !s.stateless {
		s.server.opts.OnLogLevel(&s.peer, p.Level)
	}
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
	if err := s.server.offers(a.version, a.Method); err != nil { // MOD-09
		return err
	}
	var err error
	a.client, err = s.sender(a.Meta)
	return err
}

// sender reads who sends a modern request. The same bytes are read once: most
// clients say the same with each request. Those that also say something new each time,
// such as a progress token, are one sender all the same.
func (s *session) sender(raw []byte) (*client, error) {
	last := s.knownSender(raw)
	if h := last.Load(); h != nil && bytes.Equal(h.raw, raw) {
		return h.sender, nil
	}
	if len(raw) > maxMeta {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "_meta is longer than %d bytes", maxMeta)
	}
	var meta mcp.Meta
	if err := mcp.Unmarshal(raw, &meta); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "_meta is malformed")
	}
	said := saidOf(meta)
	alike := s.knownSender(said)
	if h := alike.Load(); h != nil && bytes.Equal(h.sender.said, said) {
		h.sender.remember(raw, last, alike)
		return h.sender, nil
	}
	c, err := newSender(meta, said)
	if err != nil {
		return nil, err
	}
	if len(raw) <= maxKnownMeta {
		c.first = bytes.Clone(raw)
	}
	c.remember(raw, last, alike)
	return c, nil
}

// remember makes c the sender that is known by raw, unless that is long.
func (c *client) remember(raw []byte, places ...*atomic.Pointer[remembered]) {
	if len(raw) > maxKnownMeta {
		return
	}
	now := &remembered{raw: c.first, sender: c}
	if !bytes.Equal(c.first, raw) {
		now.raw = bytes.Clone(raw)
	}
	for _, place := range places {
		place.Store(now)
	}
}

// saidOf joins what _meta says of its sender. As it is of JSON values, which none of the
// separators is in, it is the same for nobody who says something else.
func saidOf(meta mcp.Meta) []byte {
	return bytes.Join([][]byte{meta[mcp.MetaClientCapabilities], meta[mcp.MetaClientInfo], meta[mcp.MetaLogLevel]}, []byte{0})
}

// newSender reads what was said.
func newSender(meta mcp.Meta, said []byte) (*client, error) {
	c, err := &client{said: said}, error(nil)
	if c.capabilities, err = meta.ClientCapabilities(); err != nil {
		return nil, err
	}
	if c.level, err = meta.LogLevel(); err != nil {
		return nil, err
	}
	if info := meta.ClientInfo(); info != nil {
		c.info = *info
	}
	return c, nil
}

// remembered is a sender, and the _meta that it was last known by.
type remembered struct {
	raw    []byte
	sender *client
}

// senders is where the newest senders are remembered that share a session, by what
// they have said: nothing of one is ever another's (CAP-05).
type senders [256]atomic.Pointer[remembered]

var senderSeed = maphash.MakeSeed()

const (
	// maxMeta bounds the _meta of a modern request, in bytes: what a client says of
	// itself is decoded, and kept for as long as the call lasts (ROB-3).
	maxMeta = 256 << 10
	// maxKnownMeta bounds what is remembered of one sender, in bytes.
	maxKnownMeta = 2 << 10
)

// knownSender is where the sender is remembered whose _meta raw is, or who has said raw.
func (s *session) knownSender(raw []byte) *atomic.Pointer[remembered] {
	if s.senders == nil {
		return &s.modern
	}
	return &s.senders[maphash.Bytes(senderSeed, raw)%uint64(len(s.senders))]
}

// discover describes the server (MOD-04).
func (s *session) discover(a *arrival) ([]byte, error) {
	ttl := s.server.opts.CacheFor.Milliseconds()
	offered := s.server.capabilities(a.version)
	s.server.declareTasks(&offered, a.version, a.principal)
	result, err := mcp.MarshalResult(&mcp.DiscoverResult{
		SupportedVersions: s.server.opts.Versions,
		Capabilities:      offered,
		Instructions:      s.server.opts.Instructions,
		TTLMs:             &ttl,
		CacheScope:        s.server.listScope(),
	}, a.version)
	return s.server.withMeta(result, a.version), err
}
