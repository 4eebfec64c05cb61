package e2e

import (
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// TestServe: clients of others drive "troupe serve", the real program, over stdio and
// HTTP, in both eras, with servers of both eras behind it. What the race detector would
// see is in that program and not here: with it, there are fewer of them.
func TestServe(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP clients and servers")
	}
	t.Parallel()
	peers.Require(t, peers.Client)
	b := builds{peers.RequireTroupe(t), peers.RequireFixture(t)}
	t.Run("gateway", func(t *testing.T) { gateway(t, b) })
	t.Run("agents", func(t *testing.T) { agents(t, b) })
	t.Run("inspector", func(t *testing.T) { inspector(t, b) })
	t.Run("several clients", func(t *testing.T) { severalClients(t, b) })
}

// builds are the programs of ours.
type builds struct{ troupe, fixture string }

// crowd holds those that run at once: each is several programs, and all together would
// only make each other late.
var crowd = make(chan struct{}, 4)

// join waits for room in the crowd, which the test leaves at its end. It is called before
// anything is started.
func join(t *testing.T) {
	t.Helper()
	t.Parallel()
	crowd <- struct{}{}
	t.Cleanup(func() { <-crowd })
}

// eraPair is a client and the era of the servers behind the front.
type eraPair struct {
	sdk, revision, down, transport string
}

func (p eraPair) String() string {
	return fmt.Sprintf("%s %s %s to %s", p.sdk, p.revision, p.transport, p.down)
}

// thinned leaves the first n of all under the race detector.
func thinned[T any](all []T, n int) []T {
	if mcptest.Race {
		return all[:min(n, len(all))]
	}
	return all
}
