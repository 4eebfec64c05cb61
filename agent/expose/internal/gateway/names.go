package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Bounds on names, in bytes.
const (
	maxToolName   = 128 // of a tool (TOOL-04)
	maxCallName   = 64  // of a tool that models accept: the bound of qualified names
	maxPromptName = 256
)

// owned is an item of a backend that needs a public name.
type owned struct {
	server, name string // name is the backend's own
	qualified    string // unique among the backends
}

// publicNames returns the names of all, in their order. They depend on the items and not on
// the order: the same backends have the same names in every process. With plain, an own name
// is public if it fits, no other item has it, and it is not taken.
func publicNames(all []owned, plain bool, longest int, taken func(string) bool, fits func(string) bool) []string {
	owners, qualified := map[string]int{}, map[string]bool{}
	for _, o := range all {
		owners[o.name]++
		qualified[o.qualified] = true
	}
	names := make([]string, len(all))
	for i, o := range all {
		switch {
		// A backend must not pass for another one by calling its tool other__tool.
		case plain && owners[o.name] == 1 && fits(o.name) && !taken(o.name) && (!qualified[o.name] || o.name == o.qualified):
			names[i] = o.name
		case taken(o.qualified):
			names[i] = withHash(o.qualified, o, longest)
		default:
			names[i] = o.qualified
		}
	}
	return names
}

// isToolName reports whether a tool may have the name (TOOL-04).
func isToolName(name string) bool {
	odd := strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.-", r))
	})
	return name != "" && len(name) <= maxToolName && !odd
}

// isPromptName reports whether a prompt may have the name. The protocol has no rule for it, but
// clients must be able to show it.
func isPromptName(name string) bool {
	return name != "" && len(name) <= maxPromptName && utf8.ValidString(name)
}

// qualifiedTool returns server__tool, as agents know the tool, in characters that models
// accept. A changed name, and one that another backend's tool could have, ends with a part of
// a hash.
func qualifiedTool(server, tool string) owned {
	name := server + "__" + tool
	o := owned{server: server, name: tool, qualified: strings.Map(func(r rune) rune {
		if isToolName(string(r)) && r != '.' {
			return r
		}
		return '_'
	}, name)}
	if o.qualified != name || len(name) > maxCallName || strings.Contains(server, "__") || strings.HasSuffix(server, "_") {
		o.qualified = withHash(o.qualified, o, maxCallName)
	}
	return o
}

// qualifiedPrompt returns server__prompt. A name that is too long, and one that another
// backend's prompt could have, ends with a part of a hash.
func qualifiedPrompt(server, prompt string) owned {
	o := owned{server: server, name: prompt, qualified: server + "__" + prompt}
	if strings.Contains(server, "__") || strings.HasSuffix(server, "_") || !isPromptName(o.qualified) {
		o.qualified = withHash(strings.ToValidUTF8(o.qualified, "_"), o, maxPromptName)
	}
	return o
}

// withHash ends a name with a part of a hash of the item.
func withHash(name string, o owned, longest int) string {
	sum := sha256.Sum256([]byte(o.server + "\x00" + o.name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name = name[:min(len(name), longest-len(suffix))]
	for !utf8.ValidString(name) { // it was cut within a character
		name = name[:len(name)-1]
	}
	return name + suffix
}
