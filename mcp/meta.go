package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Keys of _meta that the protocol defines.
const (
	MetaProgressToken      = "progressToken"
	MetaTraceParent        = "traceparent"
	MetaTraceState         = "tracestate"
	MetaBaggage            = "baggage"
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaRelatedTask        = "io.modelcontextprotocol/related-task"
	MetaImmediateResponse  = "io.modelcontextprotocol/model-immediate-response"
)

// Meta is a _meta object. The nil Meta is absent; reading from it is
// allowed, Set is not.
type Meta map[string]json.RawMessage

// Get decodes the value at key into v. It reports whether the key was there;
// a value of another type is an error.
func (m Meta) Get(key string, v any) (bool, error) {
	raw, ok := m[key]
	if !ok {
		return false, nil
	}
	if err := jsonx.Unmarshal(raw, v); err != nil {
		return true, fmt.Errorf("reading _meta %q: %w", key, err)
	}
	return true, nil
}

// Set encodes v at key. It panics if m is nil, as a map does.
func (m Meta) Set(key string, v any) error {
	raw, err := jsonx.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing _meta %q: %w", key, err)
	}
	m[key] = raw
	return nil
}

// ProgressToken returns the token; zero when absent or not a token.
func (m Meta) ProgressToken() ProgressToken { return m.id(MetaProgressToken) }

// SubscriptionID returns the id of the listen request; zero when absent or not an id.
func (m Meta) SubscriptionID() ID { return m.id(MetaSubscriptionID) }

// ProtocolVersion returns the version of a modern request; "" when absent or not a string.
func (m Meta) ProtocolVersion() Version { return Version(m.text(MetaProtocolVersion)) }

// ImmediateResponse returns the text for the model while a task runs.
func (m Meta) ImmediateResponse() string { return m.text(MetaImmediateResponse) }

// RelatedTask returns the id of the task the message belongs to; "" when absent.
func (m Meta) RelatedTask() string {
	var d RelatedTask
	if _, err := m.Get(MetaRelatedTask, &d); err != nil {
		return ""
	}
	return d.TaskID
}

// WithRelatedTask returns params or a result with the id of its task in _meta.
func WithRelatedTask(object json.RawMessage, id string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(object) > 0 {
		if err := jsonx.Unmarshal(object, &members); err != nil {
			return nil, Errorf(CodeInternal, "internal error")
		}
	}
	meta := Meta{}
	if raw, ok := members["_meta"]; ok {
		if err := jsonx.Unmarshal(raw, &meta); err != nil || meta == nil {
			meta = Meta{}
		}
	}
	if err := meta.Set(MetaRelatedTask, RelatedTask{TaskID: id}); err != nil {
		return nil, err
	}
	raw, err := jsonx.Marshal(meta)
	if err != nil {
		return nil, err
	}
	members["_meta"] = raw
	return jsonx.Marshal(members)
}

// ServerInfo returns the self-reported name of a server, for display and logs
// only; nil when absent or malformed.
func (m Meta) ServerInfo() *Implementation { return m.implementation(MetaServerInfo) }

// ClientInfo returns the self-reported name of a client, for display and logs
// only; nil when absent or malformed.
func (m Meta) ClientInfo() *Implementation { return m.implementation(MetaClientInfo) }

// LogLevel returns the level a modern request asks for: "" when absent, an
// error -32602 when it is not a level.
func (m Meta) LogLevel() (LogLevel, error) {
	var l LogLevel
	ok, err := m.Get(MetaLogLevel, &l)
	if !ok {
		return "", nil
	}
	if err != nil || !l.Valid() {
		return "", Errorf(CodeInvalidParams, "_meta %s is not a log level", MetaLogLevel)
	}
	return l, nil
}

// ClientCapabilities returns the capabilities of a modern request; an error
// -32602 when they are missing or malformed.
func (m Meta) ClientCapabilities() (*ClientCapabilities, error) {
	var c *ClientCapabilities
	if _, err := m.Get(MetaClientCapabilities, &c); err != nil || c == nil {
		return nil, Errorf(CodeInvalidParams, "_meta %s is missing or malformed", MetaClientCapabilities)
	}
	return c, nil
}

func (m Meta) id(key string) ID {
	id, err := ParseID(m[key])
	if err != nil {
		return ID{}
	}
	return id
}

func (m Meta) text(key string) string {
	var s string
	if _, err := m.Get(key, &s); err != nil {
		return ""
	}
	return s
}

func (m Meta) implementation(key string) *Implementation {
	var i *Implementation
	if _, err := m.Get(key, &i); err != nil {
		return nil
	}
	return i
}

// CheckMetaKey reports whether key follows the grammar of _meta names: an
// optional prefix of dot-separated labels and a slash, then a name.
func CheckMetaKey(key string) error {
	prefix, name, found := cutLast(key)
	if found {
		for label := range strings.SplitSeq(prefix, ".") {
			if !isLabel(label) {
				return fmt.Errorf("_meta key %q: %q is not a label", key, label)
			}
		}
	}
	if name != "" && !isMetaName(name) {
		return fmt.Errorf("_meta key %q: %q is not a name", key, name)
	}
	return nil
}

// ReservedMetaKey reports whether key belongs to the protocol: applications
// must not define it.
func ReservedMetaKey(key string) bool {
	switch key {
	case MetaProgressToken, MetaTraceParent, MetaTraceState, MetaBaggage:
		return true
	}
	prefix, _, found := cutLast(key)
	labels := strings.SplitN(prefix, ".", 3)
	return found && len(labels) >= 2 && (labels[1] == "modelcontextprotocol" || labels[1] == "mcp")
}

func cutLast(key string) (prefix, name string, found bool) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return "", key, false
	}
	return key[:i], key[i+1:], true
}

func isLabel(s string) bool {
	if s == "" || !isLetter(s[0]) || !isAlnum(s[len(s)-1]) {
		return false
	}
	return strings.TrimFunc(s, func(r rune) bool { return r < 0x80 && (isAlnum(byte(r)) || r == '-') }) == ""
}

func isMetaName(s string) bool {
	if !isAlnum(s[0]) || !isAlnum(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isLetter(c) || '0' <= c && c <= '9' }
