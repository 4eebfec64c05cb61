// Package clients knows what clients say of themselves, and decodes the same description once.
package clients

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Client is the description that a client has sent of itself; it does not change.
type Client struct {
	Info         mcp.Implementation
	Capabilities *mcp.ClientCapabilities
	Level        mcp.LogLevel // of a modern request: "" for no log messages

	// Of the sender of modern requests.
	said  []byte // the members of _meta that this was decoded from
	first []byte // their first _meta; nil if it was long
}

// Greeting is the first message of a legacy client.
type Greeting struct {
	Params mcp.InitializeParams
	Client Client

	raw []byte // nil if it is too long to compare
}

// maxGreeting bounds the greeting that is kept, in bytes.
const maxGreeting = 4 << 10

// ReadGreeting decodes the params of initialize. It returns last if that has the same bytes:
// many sessions belong to one program, and share its greeting. Keep reports whether the
// greeting can be the last of the next call.
func ReadGreeting(m *mcp.Message, last *Greeting) (g *Greeting, keep bool, err error) {
	if last != nil && bytes.Equal(last.raw, m.Params) {
		return last, false, nil
	}
	g = new(Greeting)
	if err := m.DecodeParams(&g.Params); err != nil {
		return nil, false, err
	}
	if g.Params.ProtocolVersion == "" && !namesAnyVersion(m.Params) {
		return nil, false, mcp.Errorf(mcp.CodeInvalidParams, "initialize: protocolVersion is missing") // LIFE-01
	}
	g.Client = Client{Info: g.Params.ClientInfo, Capabilities: &g.Params.Capabilities}
	if 0 < len(m.Params) && len(m.Params) <= maxGreeting {
		g.raw = bytes.Clone(m.Params)
	}
	return g, g.raw != nil, nil
}

// namesAnyVersion reports whether the params of initialize have a version, maybe an
// empty one.
func namesAnyVersion(params []byte) bool {
	var p struct {
		ProtocolVersion *string `json:"protocolVersion"`
	}
	return jsonx.Unmarshal(params, &p) == nil && p.ProtocolVersion != nil
}

// Meta is the _meta of a request that has outlived its frame. Most of it is the same in all
// requests of the sender, which has it once: its two ends are taken from there.
type Meta struct {
	Own        []byte // between the ends; nil when there is no _meta
	head, tail uint16 // bytes of the sender's first _meta
}

// Meta returns what has to be kept of raw.
func (c *Client) Meta(raw []byte) Meta {
	k := Meta{Own: raw}
	n := min(len(c.first), len(raw))
	for int(k.head) < n && raw[k.head] == c.first[k.head] {
		k.head++
	}
	for int(k.tail) < n-int(k.head) && raw[len(raw)-1-int(k.tail)] == c.first[len(c.first)-1-int(k.tail)] {
		k.tail++
	}
	k.Own = raw[k.head : len(raw)-int(k.tail)]
	return k
}

// Raw returns the _meta as it came from c; nil when there is none that the handler can see.
func (k Meta) Raw(c *Client) []byte {
	if k.head == 0 && k.tail == 0 {
		return k.Own
	}
	return slices.Concat(c.first[:k.head], k.Own, c.first[len(c.first)-int(k.tail):])
}

// Clone returns a copy that shares no bytes with the frame.
func (k Meta) Clone() Meta {
	k.Own = bytes.Clone(k.Own)
	return k
}

// Size is how long the _meta is, in bytes.
func (k Meta) Size() int { return int(k.head) + len(k.Own) + int(k.tail) }

// TakesTasks returns an error for a request that does not declare the extension
// (XTASK-01, XTASK-16). A legacy tasks capability does not count (XTASK-19).
func (c *Client) TakesTasks() error {
	if settings, ok := c.Capabilities.Extension(mcp.ExtensionTasks); ok && len(settings) > 0 && settings[0] == '{' { // EXT-01, EXT-06
		return nil
	}
	return mcp.MissingCapability(&mcp.ClientCapabilities{Extensions: WithExtension(nil, mcp.ExtensionTasks)})
}

// WithExtension declares an extension without settings (EXT-01).
func WithExtension(all map[string]json.RawMessage, id string) map[string]json.RawMessage {
	all = maps.Clone(all)
	if all == nil {
		all = make(map[string]json.RawMessage, 1)
	}
	all[id] = json.RawMessage(`{}`)
	return all
}
