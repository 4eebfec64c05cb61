package mcp

import (
	"encoding/json"
	"time"
)

// Implementation names a client or server. It is self-reported: for display
// and logs, never for behaviour or security.
type Implementation struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"` // 2025-06-18 on
	Version     string `json:"version"`
	Description string `json:"description,omitzero"` // 2025-11-25 on
	WebsiteURL  string `json:"websiteUrl,omitzero"`  // 2025-11-25 on
	Icons       []Icon `json:"icons,omitzero"`       // 2025-11-25 on

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// DisplayName returns the title, or else the name.
func (i *Implementation) DisplayName() string {
	if i == nil {
		return ""
	}
	if i.Title != "" {
		return i.Title
	}
	return i.Name
}

// Icon is a picture for a user interface. It is untrusted.
type Icon struct {
	Src      string   `json:"src"` // https or data URL
	MIMEType string   `json:"mimeType,omitzero"`
	Sizes    []string `json:"sizes,omitzero"` // "48x48", "any"; nil is any size
	Theme    string   `json:"theme,omitzero"` // "light", "dark"; "" is any

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// InitializeParams opens a legacy session.
type InitializeParams struct {
	ProtocolVersion Version            `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"capabilities"`
	ClientInfo      Implementation     `json:"clientInfo"`
	Meta            Meta               `json:"_meta,omitzero"`
}

// Validate takes any version, also an empty one: a server that does not know it offers
// its own. Absent client info is tolerated: it decides nothing.
func (p *InitializeParams) Validate() error { return nil }

// InitializeResult answers initialize.
type InitializeResult struct {
	ProtocolVersion Version            `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	ServerInfo      Implementation     `json:"serverInfo"`
	Instructions    string             `json:"instructions,omitzero"` // text for the model
	Meta            Meta               `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that the version is there.
func (r *InitializeResult) Validate() error {
	return required("initialize result", "protocolVersion", r.ProtocolVersion != "")
}

// DiscoverResult answers server/discover.
type DiscoverResult struct {
	SupportedVersions []Version          `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	Instructions      string             `json:"instructions,omitzero"`
	Meta              Meta               `json:"_meta,omitzero"`
	ResultType        string             `json:"resultType,omitzero"` // set by the encoder
	TTLMs             *int64             `json:"ttlMs,omitzero"`
	CacheScope        string             `json:"cacheScope,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that the versions are there: what tells a modern server from
// a legacy one that answers anything.
func (r *DiscoverResult) Validate() error {
	return required("discover result", "supportedVersions", len(r.SupportedVersions) > 0)
}

// TTL returns how long the result is fresh.
func (r *DiscoverResult) TTL() time.Duration { return ttl(r.TTLMs) }

// Values of cacheScope.
const (
	CachePublic  = "public"
	CachePrivate = "private"
)

// maxTTLMs is the largest ttlMs that a time.Duration can hold.
const maxTTLMs = int64(1<<63-1) / int64(time.Millisecond)

// ttl reads a ttlMs: absent or negative is 0 (CACHE-02).
func ttl(ms *int64) time.Duration {
	if ms == nil || *ms < 0 {
		return 0
	}
	return time.Duration(min(*ms, maxTTLMs)) * time.Millisecond
}
