package hostconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// definition is the part of a server that decides what is started or contacted. Its texts
// are not expanded: a changed secret needs no new approval, another variable does.
type definition struct {
	Type          string             `json:"type"`
	Command       string             `json:"command"`
	Args          []string           `json:"args"`
	Env           map[string]*string `json:"env"`
	EnvFile       string             `json:"envFile"`
	Dir           string             `json:"cwd"`
	URL           string             `json:"url"`
	Headers       map[string]string  `json:"headers"`
	HeadersHelper string             `json:"headersHelper"`
	OAuth         json.RawMessage    `json:"oauth,omitempty"`
	Sandbox       bool               `json:"sandbox"`
}

// hash returns the SHA-256 of a server's definition in canonical JSON (RFC 8785),
// in hexadecimal. Spellings of other hosts that mean the same give the same.
func hash(s *Server) string {
	text, err := jsonx.Marshal(definition{s.Type, s.Command, s.Args, s.Env, s.EnvFile, s.Dir, s.URL, s.Headers, s.HeadersHelper, s.OAuth, s.Sandbox})
	if err == nil {
		text, err = jsonx.Canonical(text)
	}
	if err != nil {
		return "" // cannot be: all of it came from valid JSON; and an empty hash approves nothing
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
