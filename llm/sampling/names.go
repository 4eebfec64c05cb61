package sampling

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// maxName is how long a tool's name may be for all providers, in bytes.
const maxName = 64

// sent is the name under which a model is told of a tool. Names of MCP may have dots
// and slashes and twice the length; such a name keeps what it can, and gets a hash.
func sent(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if clean == name && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return clean[:min(len(clean), maxName-9)] + "_" + hex.EncodeToString(sum[:4])
}

// ownNames leads from the names that the model was told back to the server's.
func ownNames(p *mcp.CreateMessageParams) map[string]string {
	own := make(map[string]string, len(p.Tools))
	for _, t := range p.Tools {
		own[sent(t.Name)] = t.Name
	}
	return own
}

// ids are those of calls, with the number that was last put behind one that was taken.
type ids map[string]int

// unique returns id, or if that is empty or taken one that is not, and takes it.
func (used ids) unique(id string) string {
	made := id
	if id == "" {
		id, made = "call", "call_1"
	}
	if _, taken := used[made]; !taken {
		used[made] = 0
		return made
	}
	// From where it was the last time: ids may be chosen so that all of those are taken.
	n := max(used[id], len(used))
	for taken := true; taken; _, taken = used[made] {
		n++
		made = id + "_" + strconv.Itoa(n)
	}
	used[id], used[made] = n, 0
	return made
}

// idsOf are the ids of all calls of a conversation.
func idsOf(req *llm.Request) ids {
	used := make(ids)
	for _, m := range req.Messages {
		for _, c := range m.Content {
			if call, ok := c.(*mcp.ToolUseContent); ok {
				used[call.ID] = 0
			}
		}
	}
	return used
}
