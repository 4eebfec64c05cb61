package e2e

import (
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcpclient"
)

// TestTypeScriptSDK: version 2 of the TypeScript SDK in 2026-07-28.
func TestTypeScriptSDK(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP servers")
	}
	t.Parallel()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		line := peers.Require(t, peers.Modern)
		server := mcpclient.Command(line[0], line[1:]...)
		server.Name = "typescript"
		Modern(t, server)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		Modern(t, mcpclient.Server{Name: "typescript", URL: peers.Listen(t, peers.Modern, peers.StreamableHTTP).URL})
	})
}
