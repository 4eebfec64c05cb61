package mcpclient

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/catalogue"
)

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

// DisplayName returns what to call the tool before people: title, annotated title or
// name (TOOL-18), as the server has it. Several tools may have the same.
func (t *Tool) DisplayName() string { return t.Tool.DisplayName() }

// describe makes a catalogue entry of a tool. Its name is given later, by those
// beside it.
func describe(s *Server, t *mcp.Tool) Tool {
	d := Tool{Server: s.Name, Tool: *t, Trusted: s.Trusted, Hash: catalogue.Hash(t), AppOnly: catalogue.AppOnly(t)}
	if d.Hash == "" { // it cannot be written as canonical JSON: pinned by its own text
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{t.Name, t.Title, t.Description, string(t.InputSchema), string(t.OutputSchema)}))
		d.Hash = "raw-" + hex.EncodeToString(sum[:])
	}
	d.Warnings = catalogue.Hidden(t)
	return d
}

func keysOf(tools []Tool) []catalogue.Key {
	keys := make([]catalogue.Key, len(tools))
	for i := range tools {
		keys[i] = catalogue.Key{Server: tools[i].Server, Tool: tools[i].Tool.Name}
	}
	return keys
}

// qualify gives every tool its name, and sorts them by it.
func qualify(tools []Tool) {
	for i, name := range catalogue.Names(keysOf(tools)) {
		tools[i].Name = name
	}
	slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
}

// flagLookAlikes warns of tools whose names look like those of others (SECA-39).
func flagLookAlikes(tools []Tool) {
	for i, warning := range catalogue.LookAlikes(keysOf(tools)) {
		if warning != "" {
			tools[i].Warnings = append(slices.Clip(tools[i].Warnings), warning)
		}
	}
}
