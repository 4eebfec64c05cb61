package e2e

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// TestNotices: our client hears from our server what it wants to hear, in every
// revision, in process and over HTTP: changed tools, the update of a resource that it
// has subscribed to, the end of the server; and the server hears of changed roots.
func TestNotices(t *testing.T) {
	for _, v := range mcp.Versions() {
		for _, web := range []bool{false, true} {
			if web && v == mcp.V2024_11_05 {
				continue // it has a transport of its own
			}
			name := string(v) + " in process"
			if web {
				name = string(v) + " over HTTP"
			}
			t.Run(name, func(t *testing.T) { notices(t, v, web) })
		}
	}
}

func notices(t *testing.T, v mcp.Version, web bool) {
	rooted := make(chan []mcp.Root, 10)
	s, err := mcpserver.New(mcp.Implementation{Name: "ours", Version: "1"}, &mcpserver.Options{
		Lists: mcpserver.ListOptions{DeclareAll: true},
		Events: mcpserver.Events{OnRootsChanged: func(ctx context.Context, p *mcpserver.Peer) {
			if roots, err := p.Roots(ctx); err == nil {
				rooted <- roots
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	server := mcpclient.Server{Name: "ours", Connect: s, Protocol: string(v)}
	if web {
		at := httptest.NewServer(s.Handler())
		t.Cleanup(at.Close)
		server = mcpclient.Server{Name: "ours", URL: at.URL, Protocol: string(v)}
	}

	changed := make(chan struct{}, 10)
	opts := &mcpclient.Options{OnToolsChanged: func() { changed <- struct{}{} }}
	one, two := mcp.Root{URI: "file://" + t.TempDir()}, mcp.Root{URI: "file://" + t.TempDir()} // a client shows what is there
	opts.Roots = []mcp.Root{one}
	ctx, client := Connect(t, server, opts)
	if _, err := client.ListTools(ctx); err != nil { // a client that asked for the list wants to know of changes
		t.Fatal(err)
	}
	updates := make(chan string, 10)
	sub, err := client.Subscribe(ctx, "x://h/dir", func(uri string) { updates <- uri })
	if err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	until(ctx, t, updates, "the update", func() { s.ResourceUpdated("x://h/dir/file") }) // streams open when they do
	until(ctx, t, changed, "the change of the tools", func() {
		s.RemoveTools("new")
		if err := mcpserver.AddFunc(s, &mcp.Tool{Name: "new"}, func(context.Context, struct{}) (string, error) { return "", nil }); err != nil {
			t.Fatal(err)
		}
	})
	if v.Era() == mcp.EraLegacy {
		if err := client.SetRoots([]mcp.Root{two}); err != nil {
			t.Fatalf("SetRoots: %v", err)
		}
		if got := next(ctx, t, rooted, "the changed roots"); len(got) != 1 || got[0].URI != two.URI {
			t.Errorf("the server heard of %v", got)
		}
	}
	if err := sub.Close(); err != nil {
		t.Errorf("closing the subscription: %v", err)
	}
	if v.Era() == mcp.EraLegacy {
		return
	}
	ends := make(chan mcpclient.Notice, 100)
	if _, err := client.Listen(ctx, mcp.SubscriptionFilter{PromptsListChanged: true}, func(n mcpclient.Notice) { ends <- n }); err != nil {
		t.Fatalf("Listen: %v", err)
	}
	if n := next(ctx, t, ends, "the acknowledgement"); n.Kind != mcpclient.NoticeAcknowledged || !n.Accepted.PromptsListChanged {
		t.Errorf("got %v first", n.Kind)
	}
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if n := next(ctx, t, ends, "the end"); n.Kind != mcpclient.NoticeEnded || n.Err != nil {
		t.Errorf("got %v (%v), want an end in good order", n.Kind, n.Err)
	}
}

// until does something now and then until it is heard of.
func until[T any](ctx context.Context, t *testing.T, from <-chan T, what string, do func()) {
	t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		do()
		select {
		case <-from:
			return
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s did not come", what)
		}
	}
}
