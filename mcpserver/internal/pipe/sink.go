package pipe

import (
	"context"

	"github.com/troupe-dev/troupe/mcp"
)

// Sink is the output of an in-memory link.
type Sink struct{ To mcp.Sink }

// Write sends a frame.
func (k Sink) Write(frame []byte) error { k.To.Frame(frame); return nil }

// Append is Write.
func (k Sink) Append(frame []byte) error { return k.Write(frame) }

// Flush does nothing.
func (k Sink) Flush() error { return nil }

// Close ends the link.
func (k Sink) Close(context.Context) error { k.To.Lost(nil); return nil }
