package catalogue

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName is how long a qualified name may be: model providers take no longer ones.
const MaxName = 64

// Key is a tool of a server, by the names that the configuration and the server have for them.
type Key struct{ Server, Tool string }

// Names returns a name for every tool. A name depends on the server, the tool and those whose
// names would be the same, never on the order of anything.
func Names(tools []Key) []string {
	names := make([]string, len(tools))
	for digits := 0; ; digits = max(8, 2*digits) {
		taken := map[string][]int{}
		for i, t := range tools {
			if digits == 0 || names[i] == "" {
				names[i] = Qualified(t.Server, t.Tool, digits)
			}
			taken[names[i]] = append(taken[names[i]], i)
		}
		clash := false
		for _, same := range taken {
			for _, i := range same {
				if len(same) > 1 && digits < 32 {
					names[i], clash = "", true
				}
			}
		}
		if !clash {
			return names
		}
	}
}

// Qualified returns server__tool, with digits of a hash behind it: at least eight
// if the name had to be changed, or could be that of another server's tool.
func Qualified(server, tool string, digits int) string {
	name := clean(server) + "__" + clean(tool)
	changed := name != server+"__"+tool || len(name) > MaxName || strings.Contains(server, "__") || strings.HasSuffix(server, "_")
	if changed {
		digits = max(digits, 8)
	}
	if digits == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	suffix := "_" + hex.EncodeToString(sum[:])[:digits]
	return name[:min(len(name), MaxName-len(suffix))] + suffix
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, s)
}
