package mcpclient

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
)

// maxName is how long a qualified name may be: what model providers take.
const maxName = 64

// Tool is one entry of the merged catalogue.
type Tool struct {
	Server  string   // its name in the configuration
	Name    string   // server__tool: at most 64 characters of [A-Za-z0-9_-]
	Tool    mcp.Tool // as the server describes it, with its own name
	Trusted bool     // the user trusts the server's hints
	// Hash identifies the definition: see [HashTool]. Never empty.
	Hash string
	// Warnings say what is odd about the tool, in words: hidden characters (SECA-37), a
	// name that looks like another's (SECA-39).
	Warnings []string
	// AppOnly says that the tool is for the server's own user interfaces (_meta.ui.visibility
	// does not name the model): no model is offered it (APP-05).
	AppOnly bool
}

// appOnly reads who may call a tool; a form that is not known hides nothing.
func appOnly(t *mcp.Tool) bool {
	var ui struct {
		Visibility []string `json:"visibility"`
	}
	found, err := t.Meta.Get("ui", &ui)
	return found && err == nil && ui.Visibility != nil && !slices.Contains(ui.Visibility, "model")
}

// DisplayName returns what to call the tool before people: title, annotated title or
// name (TOOL-18), as the server has it. Several tools may have the same.
func (t *Tool) DisplayName() string { return t.Tool.DisplayName() }

// qualify gives every tool its name. A name depends on the server, the tool and
// those whose names would be the same, never on the order of anything.
func qualify(tools []Tool) {
	for digits := 0; ; digits = max(8, 2*digits) {
		taken := map[string][]int{}
		for i := range tools {
			if t := &tools[i]; digits == 0 || t.Name == "" {
				t.Name = qualified(t.Server, t.Tool.Name, digits)
			}
			taken[tools[i].Name] = append(taken[tools[i].Name], i)
		}
		clash := false
		for _, same := range taken {
			for _, i := range same {
				if len(same) > 1 && digits < 32 {
					tools[i].Name, clash = "", true
				}
			}
		}
		if !clash {
			break
		}
	}
	slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
}

// qualified returns server__tool, with digits of a hash behind it: at least eight
// if the name had to be changed, or could be that of another server's tool.
func qualified(server, tool string, digits int) string {
	name := clean(server) + "__" + clean(tool)
	changed := name != server+"__"+tool || len(name) > maxName || strings.Contains(server, "__") || strings.HasSuffix(server, "_")
	if changed {
		digits = max(digits, 8)
	}
	if digits == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	suffix := "_" + hex.EncodeToString(sum[:])[:digits]
	return name[:min(len(name), maxName-len(suffix))] + suffix
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, s)
}
