package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Bounds on the instructions of servers, in bytes.
const (
	maxInstructions    = 4 << 10  // of one
	maxAllInstructions = 16 << 10 // of all together
)

// texts returns the instructions of servers as a model gets them: in plain text, within
// the bounds, and only those that have not changed since they were first used, as with
// the definition of a tool (SECA-38).
func (s *servers) texts(ctx context.Context, of []string) []runlog.ServerText {
	var texts []runlog.ServerText
	left := maxAllInstructions
	for _, name := range of {
		text := s.instructions(name)
		if strings.TrimSpace(text) == "" || s.silent(name) || !s.knows(ctx, name, text) {
			continue
		}
		plain, _ := sanitize.Text(text, sanitize.Limits{})
		text = cutInstructions(strings.TrimSpace(plain), min(left, maxInstructions))
		left = max(left-len(text), 0)
		texts = append(texts, runlog.ServerText{Server: name, Text: text})
	}
	return texts
}

// cutInstructions cuts a text, and marks the cut at its end.
func cutInstructions(text string, most int) string {
	if len(text) <= most {
		return text
	}
	kept := clip.Head(text, most)
	return strings.TrimSpace(fmt.Sprintf("%s\n[cut: %d of %d bytes are left out]", kept, len(text)-len(kept), len(text)))
}

// silent reports whether a server's instructions are kept from models.
func (s *servers) silent(name string) bool {
	i := slices.IndexFunc(s.all, func(srv mcpclient.Server) bool { return srv.Name == name })
	return i < 0 || s.all[i].NoInstructions
}

// knows reports whether the instructions of a server are those that were first used, or
// accepted since. The first are pinned. Those of a server in this process are the
// program's own words.
func (s *servers) knows(ctx context.Context, name, text string) bool {
	i := slices.IndexFunc(s.all, func(srv mcpclient.Server) bool { return srv.Name == name })
	if i < 0 || pinSource(&s.all[i]) == "" {
		return i >= 0
	}
	hash := mcpclient.HashInstructions(text)
	if known, _ := s.accepted.Load(name); known == hash {
		return true
	}
	pinned, ok, err := s.options.Pins.Pin(ctx, name, mcpclient.PinInstructions)
	if err == nil && !ok {
		pinned, err = hash, s.options.Pins.SetPin(ctx, name, mcpclient.PinInstructions, hash)
	}
	if err == nil && pinned == hash {
		s.accepted.Store(name, hash)
		return true
	}
	s.warnOnce("instructions of "+name+" "+hash, "the instructions of a server are kept from the model: they are not what they were when they were accepted; look at them and accept them with troupe mcp approve --tools",
		"server", name, "error", err)
	return false
}
