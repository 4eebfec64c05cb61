package mcpclient

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// Redact returns text with variables in place of the values that they have put into URL, for errors and logs: a
// server may repeat what it was asked for. Values of less than four bytes, such as a port, stay.
func (s *Server) Redact(text string) string {
	if len(s.inURL) == 0 {
		return text
	}
	type form struct{ value, variable string }
	var forms []form
	for variable, value := range s.inURL {
		for _, v := range []string{value, (&url.URL{Path: value}).EscapedPath(), url.PathEscape(value), url.QueryEscape(value), strings.ToLower(value)} {
			if len(v) >= 4 {
				forms = append(forms, form{v, variable})
			}
		}
	}
	// The longest first: of a value that begins with another one the rest would stay.
	slices.SortFunc(forms, func(a, b form) int {
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.value, b.value), cmp.Compare(a.variable, b.variable))
	})
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f.value, f.variable)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// RedactError returns err with the text that [Server.Redact] makes of its own. A nil error stays nil.
func (s *Server) RedactError(err error) error {
	if err == nil || len(s.inURL) == 0 {
		return err
	}
	text := err.Error()
	if redacted := s.Redact(text); redacted != text {
		return &redactedError{redacted, err}
	}
	return err
}

// redactedError is an error with another text.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// redactedLog returns the log of a server whose address has secrets of the environment.
func redactedLog(log *slog.Logger, s *Server) *slog.Logger {
	if len(s.inURL) == 0 {
		return log
	}
	return slog.New(&redactHandler{log.Handler(), s})
}

// redactHandler redacts texts and errors.
type redactHandler struct {
	slog.Handler
	server *Server
}

func (h *redactHandler) Handle(ctx context.Context, r slog.Record) error {
	redacted := slog.NewRecord(r.Time, r.Level, h.server.Redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		redacted.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, redacted)
}

func (h *redactHandler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(h.server.Redact(v.String()))
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			a.Value = slog.AnyValue(h.server.RedactError(err))
		}
	}
	return a
}

func (h *redactHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &redactHandler{h.Handler.WithAttrs(attrs), h.server}
}

func (h *redactHandler) WithGroup(name string) slog.Handler {
	return &redactHandler{h.Handler.WithGroup(name), h.server}
}
