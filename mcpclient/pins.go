package mcpclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/catalogue"
	"github.com/troupe-dev/troupe/mcpclient/internal/pins"
)

// PinStore remembers by its hash what each tool was when it was first called, or
// last accepted. It may be used from several goroutines at once; both methods may
// wait. An error keeps the tool from being called.
type PinStore interface {
	// Pin returns the hash that was set, and false if there was none.
	Pin(ctx context.Context, server, tool string) (hash string, ok bool, err error)
	SetPin(ctx context.Context, server, tool, hash string) error
}

// MemoryPins is a [PinStore] that forgets when the process ends. Its zero value is
// empty. It holds at most 100,000 pins and refuses more.
type MemoryPins struct{ hashes pins.Memory }

// Pin implements [PinStore].
func (m *MemoryPins) Pin(_ context.Context, server, tool string) (string, bool, error) {
	hash, ok := m.hashes.Get(pins.Key{Server: server, Tool: tool})
	return hash, ok, nil
}

// SetPin implements [PinStore].
func (m *MemoryPins) SetPin(_ context.Context, server, tool, hash string) error {
	return m.hashes.Set(pins.Key{Server: server, Tool: tool}, hash)
}

// ErrToolChanged is what a [ToolChangedError] is.
var ErrToolChanged = errors.New("mcpclient: the tool is not what it was")

// ToolChangedError refuses a call: the definition of the tool is another one than
// was accepted, and no person has accepted this one.
type ToolChangedError struct {
	Server, Tool string
	Pinned, Hash string    // of the definition that was accepted, and of this one
	Before       *mcp.Tool // nil if only its hash is known
	Now          *mcp.Tool
}

func (e *ToolChangedError) Error() string {
	what := "its definition"
	if changes := e.Changes(); len(changes) > 0 {
		what = strings.Join(changes, ", ")
	}
	return fmt.Sprintf("tool %q of server %s is not what it was when it was accepted (changed: %s); "+
		"look at it again, and accept it when asked or with: troupe mcp approve --tools %s (its hash is now %s)",
		e.Tool, e.Server, what, e.Server, e.Hash)
}

// Is reports that the error is [ErrToolChanged].
func (e *ToolChangedError) Is(target error) bool { return target == ErrToolChanged }

// Changes names what differs, such as "description"; nil if that is not known.
func (e *ToolChangedError) Changes() []string {
	if e.Before == nil || e.Now == nil {
		return nil
	}
	return ToolChanges(e.Before, e.Now)
}

// HashTool returns the hash that tools are pinned by: of all members of the definition, those that this
// program does not know among them, but for icons. It does not depend on the order of members or on white
// space.
func HashTool(t *mcp.Tool) string { return catalogue.Hash(t) }

// ToolIs reports whether a tool is the one that a hash was made of, by [HashTool] of this version or of an
// earlier one, which left out more of the definition.
func ToolIs(hash string, t *mcp.Tool) bool { return catalogue.Is(hash, t) }

// DefinitionText returns what tools are pinned by, as indented JSON in which hidden characters are spelled
// out.
func DefinitionText(t *mcp.Tool) (string, error) {
	text, err := catalogue.Text(t)
	if err != nil {
		return "", fmt.Errorf("showing the tool %q: %w", t.Name, err)
	}
	return sanitize.Reveal(text), nil
}

// ToolChanges names the members of a tool's definition in which two differ, sorted, such as description and
// inputSchema. Icons are left out, and nil may mean that one of them cannot be written.
func ToolChanges(a, b *mcp.Tool) []string { return catalogue.Changes(a, b) }

// Pinned returns what a tool, by its server's own name for it, is held to: the hash of the definition, ""
// for a tool that was never called, and the definition itself where this host has called it.
func (h *Host) Pinned(ctx context.Context, server, tool string) (hash string, definition *mcp.Tool, err error) {
	return h.pins.Pinned(ctx, pins.Key{Server: server, Tool: tool})
}

// checkPin reports whether the tool may be called as it is now. The first call pins it.
func (h *Host) checkPin(ctx context.Context, tool *Tool, opts *CallOptions) error {
	key := pins.Key{Server: tool.Server, Tool: tool.Tool.Name}
	decided := ""
	if opts != nil {
		decided = opts.Definition
	}
	return h.pins.Check(ctx, key, decided, tool.Hash, &tool.Tool, func(hash string, before *mcp.Tool) error {
		return h.acceptTool(ctx, tool, hash, before, opts)
	})
}

// acceptTool asks the human whether a tool may go on as it is now.
func (h *Host) acceptTool(ctx context.Context, tool *Tool, hash string, before *mcp.Tool, opts *CallOptions) error {
	changed := &ToolChangedError{
		Server: tool.Server, Tool: tool.Tool.Name, Pinned: hash, Hash: tool.Hash, Before: before, Now: &tool.Tool,
	}
	c, err := h.Client(tool.Server)
	if err != nil {
		return err
	}
	human := c.opts.Human
	if opts != nil && opts.Human != nil {
		human = opts.Human
	}
	if human == nil || opts != nil && opts.NoAsk {
		return changed
	}
	d := c.questions.decide(ctx, c.requests.originOf(opts, mcp.MethodCallTool, tool.Tool.Name), &Ask{
		Kind: AskTool, Tool: &tool.Tool, Before: before,
		Message: "This tool is not what it was when it was accepted.",
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.Action != mcp.ActionAccept {
		return changed
	}
	return nil
}

// PinInstructions is the name under which a [PinStore] has a server's instructions, in
// place of a tool's.
const PinInstructions = "(instructions)"

// HashInstructions returns the hash that a server's instructions are pinned by.
func HashInstructions(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
