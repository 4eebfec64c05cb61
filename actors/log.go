package actors

import (
	"context"
	"log/slog"
)

// libraryLogger lets through what the library reports as an error, without the
// messages it attaches: those hold prompts and secrets. All that matters about
// failures is logged by the kit itself.
func libraryLogger(to *slog.Logger) *slog.Logger {
	return slog.New(libraryHandler{to.Handler()})
}

type libraryHandler struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (h libraryHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && h.Handler.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h libraryHandler) Handle(ctx context.Context, r slog.Record) error {
	kept := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "message" && a.Key != "exception" {
			kept.AddAttrs(a)
		}
		return true
	})
	return h.Handler.Handle(ctx, kept)
}

// WithAttrs implements [slog.Handler].
func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.Handler.WithGroup(name)}
}
