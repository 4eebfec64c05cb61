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

// client is the description that a client has sent of itself; it does not change.
type client struct {
	info         mcp.Implementation
	capabilities *mcp.ClientCapabilities
	level        mcp.LogLevel // of a modern request: "" for no log messages

	// Of the sender of modern requests.
	said  []byte // the members of _meta that this was decoded from
	first []byte // their first _meta; nil if it was long
}

// handshake is the result of initialize.
type handshake struct {
	version mcp.Version
	client  *client
	offered mcp.ServerCapabilities // for as long as the session lasts (CAP-08)
}

func (s *session) inboundRequest(a *arrival) inbound.Request {
	return inbound.Request{ID: a.ID, Method: a.Method, Unlisted: s.stateless}
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

// speaksLegacy refuses a legacy method of a server that only speaks 2026-07-28.
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

// capabilities returns the capabilities of revision v: of all that was ever added (CAP-08).
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
	if _, ok := a.port.(*batch); ok {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "initialize must not be part of a batch") // BASE-21
	}
	g, err := readGreeting(s.server, a)
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
		s.server.notices.readUp(s)
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

// greeting is the first message of a legacy client.
type greeting struct {
	raw    []byte // nil if it is too long to compare
	params mcp.InitializeParams
	client client
}

// maxGreeting bounds the greeting that is kept, in bytes.
const maxGreeting = 4 << 10

// readGreeting decodes the params of initialize. The same bytes are decoded once: many sessions
// belong to one program, and share its greeting.
func readGreeting(s *Server, a *arrival) (*greeting, error) {
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

// namesAnyVersion reports whether the params of initialize have a version, maybe an
// empty one.
func namesAnyVersion(params []byte) bool {
	var p struct {
		ProtocolVersion *string `json:"protocolVersion"`
	}
	return jsonx.Unmarshal(params, &p) == nil && p.ProtocolVersion != nil
}

// setLevel chooses the log messages that the session gets (LOG-03).
func setLevel(s *session, a *arrival) ([]byte, error) {
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
	a.client, err = s.senders.read(a.Meta)
	return err
}

// senderCache remembers the newest senders of modern requests, so that their _meta is
// decoded once.
type senderCache struct {
	newest atomic.Pointer[remembered]
	shared *sharedSenders // instead of newest, of a session that many clients share
}

// read returns the sender of a modern request. Most clients send the same _meta with each
// request; those that add something new each time, such as a progress token, are one sender
// all the same.
func (s *senderCache) read(raw []byte) (*client, error) {
	last := s.place(raw)
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
	alike := s.place(said)
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

// remember makes c the sender of raw, unless that is long.
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

// saidOf joins the members of _meta that describe its sender. JSON values do not contain the
// separator, so distinct clients never share a key.
func saidOf(meta mcp.Meta) []byte {
	return bytes.Join([][]byte{meta[mcp.MetaClientCapabilities], meta[mcp.MetaClientInfo], meta[mcp.MetaLogLevel]}, []byte{0})
}

// newSender decodes the description of a sender.
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

// remembered is a sender with its newest _meta.
type remembered struct {
	raw    []byte
	sender *client
}

// sharedSenders are the newest senders that share a session, by their descriptions: no
// property of one is ever taken for another's (CAP-05).
type sharedSenders [256]atomic.Pointer[remembered]

var senderSeed = maphash.MakeSeed()

const (
	// maxMeta bounds the _meta of a modern request, in bytes: the description of the client is
	// decoded, and kept for as long as the call lasts (ROB-3).
	maxMeta = 256 << 10
	// maxKnownMeta bounds the _meta that is remembered of one sender, in bytes.
	maxKnownMeta = 2 << 10
)

// place returns where the sender with this _meta or description is remembered.
func (s *senderCache) place(raw []byte) *atomic.Pointer[remembered] {
	if s.shared == nil {
		return &s.newest
	}
	return &s.shared[maphash.Bytes(senderSeed, raw)%uint64(len(s.shared))]
}

// discover describes the server (MOD-04).
func discover(s *session, a *arrival) ([]byte, error) {
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
