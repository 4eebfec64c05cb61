package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
)

func TestSettle(t *testing.T) {
	base := serveFlags{listWait: time.Second, session: time.Minute}
	tests := []struct {
		name  string
		set   func(*serveFlags, *config.Serve)
		store bool
		err   string
	}{
		{"stdio", func(f *serveFlags, _ *config.Serve) { f.stdio = true }, true, ""},
		{"the configuration's address", func(_ *serveFlags, c *config.Serve) { c.HTTP = ":8080" }, true, ""},
		{"neither", func(*serveFlags, *config.Serve) {}, true, "say how to serve"},
		{"both", func(f *serveFlags, _ *config.Serve) { f.stdio, f.http = true, ":1" }, true, "exclude each other"},
		{"bearer without a token", func(_ *serveFlags, c *config.Serve) { c.HTTP, c.Auth.Type = ":8080", "bearer" }, true, "the token is empty"},
		{"an inbox without a store", func(f *serveFlags, _ *config.Serve) { f.stdio, f.unanswered = true, "inbox" }, false, "there is no inbox"},
		{"a protocol", func(f *serveFlags, _ *config.Serve) { f.stdio, f.protocol = true, "old" }, true, "--protocol"},
		{"something to expose", func(f *serveFlags, _ *config.Serve) { f.stdio, f.expose = true, []string{"files"} }, true, "--expose"},
	}
	for _, tt := range tests {
		f, c := base, config.Serve{}
		tt.set(&f, &c)
		err := f.settle(&c, !tt.store)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || env.ExitCode(err) != env.ExitUsage) {
			t.Errorf("%s: got %v, want a usage error with %q", tt.name, err, tt.err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "LocalHost": true, "127.0.0.9": true, "::1": true, "::ffff:127.0.0.1": true, "": false,
		"0.0.0.0": false, "localhost.example": false, "127.0.0.1.example": false} {
		if got := loopback(host); got != want {
			t.Errorf("loopback(%q): got %v, want %v", host, got, want)
		}
	}
}
