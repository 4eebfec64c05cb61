package hostile

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// peerVariable makes the test binary a server on stdin and stdout: its value is the
// name of a script, a revision and, if it is to listen, how.
const peerVariable = "TROUPE_HOSTILE_PEER"

func TestMain(m *testing.M) {
	if peer := os.Getenv(peerVariable); peer != "" {
		servePeer(strings.Split(peer, " "))
		os.Exit(0)
	}
	if file := os.Getenv(hostVariable); file != "" {
		runHost(file)
	}
	mcptest.Run(m, 16) // the tests wait more than they work
}

// dial connects to a server for the length of the test.
func dial(t testing.TB, s mcpclient.Server, opts *mcpclient.Options) *mcpclient.Client {
	t.Helper()
	var o mcpclient.Options
	if opts != nil {
		o = *opts
	}
	if o.System == nil {
		o.System = mcptest.NewSystem(t)
	}
	o.Logger = mcptest.Quiet()
	ctx, cancel := context.WithTimeout(t.Context(), mcptest.Patience)
	defer cancel()
	c, err := mcpclient.Dial(ctx, s, &o)
	if err != nil {
		t.Fatalf("Dial(%s): %v", s.Name, err)
	}
	t.Cleanup(func() { closeSoon(t, c.Close) })
	return c
}

// newHost starts a host for the length of the test.
func newHost(t testing.TB, servers []mcpclient.Server, opts *mcpclient.HostOptions) *mcpclient.Host {
	t.Helper()
	var o mcpclient.HostOptions
	if opts != nil {
		o = *opts
	}
	o.Logger = mcptest.Quiet()
	h, err := mcpclient.NewHost(mcptest.NewSystem(t), servers, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSoon(t, h.Close) })
	return h
}

// closeBound is what a Close may take at most: it has bounds of its own, far below.
const closeBound = mcptest.Patience

// closeSoon closes, within the bound (ROB-7).
func closeSoon(t testing.TB, end func() error) {
	t.Helper()
	begin := time.Now()
	if err := end(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(begin); took > closeBound {
		t.Errorf("Close took %v, want %v at most", took, closeBound)
	}
}

// text calls a tool within d and returns its text.
func text(t testing.TB, c *mcpclient.Client, tool string, d time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	res, err := c.CallTool(ctx, tool, nil, nil)
	if err != nil {
		return "", err
	}
	return res.Content.Text(), nil
}
