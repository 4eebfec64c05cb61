package expose

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// NameMode says how the tools and prompts of the servers behind a gateway are called.
type NameMode string

const (
	// NamesQualified puts the server before: server__tool. It is what "" means: a name
	// then says whose it is, and stays when servers come and go.
	NamesQualified NameMode = "qualified"
	// NamesPlain leaves those their own name that no two servers have, and qualifies the
	// others: for one server, or for clients that know the names.
	NamesPlain NameMode = "plain"
)

// Bounds on names, in bytes.
const (
	maxToolName   = 128 // what a server may have (TOOL-04)
	maxCallName   = 64  // what models take: qualified names are no longer
	maxPromptName = 256
)

// owned is something of a server that needs a name of its own at the front.
type owned struct {
	server, name string // the server's name for it
	qualified    string // its name beside those of other servers
}

// publicNames returns the names of all, in their order. They depend on what there is and
// never on its order: the same servers have the same names in every process. Taken are
// names that are somebody else's, fits is what a plain name has to be like.
func publicNames(all []owned, mode NameMode, longest int, taken func(string) bool, fits func(string) bool) []string {
	owners, qualified := map[string]int{}, map[string]bool{}
	for _, o := range all {
		owners[o.name]++
		qualified[o.qualified] = true
	}
	names := make([]string, len(all))
	for i, o := range all {
		switch {
		// A server must not pass for another one by calling its tool other__tool.
		case mode == NamesPlain && owners[o.name] == 1 && fits(o.name) && !taken(o.name) && (!qualified[o.name] || o.name == o.qualified):
			names[i] = o.name
		case taken(o.qualified):
			names[i] = withHash(o.qualified, o, longest)
		default:
			names[i] = o.qualified
		}
	}
	return names
}

// isToolName holds to TOOL-04.
func isToolName(name string) bool {
	odd := strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.-", r))
	})
	return name != "" && len(name) <= maxToolName && !odd
}

// isPromptName reports whether a prompt may be called so: there is no rule but that
// clients must be able to show it.
func isPromptName(name string) bool {
	return name != "" && len(name) <= maxPromptName && utf8.ValidString(name)
}

// qualifiedTool returns server__tool, as agents know the tool, in characters that models
// take. Some of a hash is behind it where the name had to be changed, or could be that of
// another server's tool.
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

// qualifiedPrompt returns server__prompt, with some of a hash behind it where that could
// be the name of another server's prompt, or is too long.
func qualifiedPrompt(server, prompt string) owned {
	o := owned{server: server, name: prompt, qualified: server + "__" + prompt}
	if strings.Contains(server, "__") || strings.HasSuffix(server, "_") || !isPromptName(o.qualified) {
		o.qualified = withHash(strings.ToValidUTF8(o.qualified, "_"), o, maxPromptName)
	}
	return o
}

// withHash puts some of a hash of what it is behind a name.
func withHash(name string, o owned, longest int) string {
	sum := sha256.Sum256([]byte(o.server + "\x00" + o.name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name = name[:min(len(name), longest-len(suffix))]
	for !utf8.ValidString(name) { // it was cut within a character
		name = name[:len(name)-1]
	}
	return name + suffix
}
