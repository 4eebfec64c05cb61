package mcpclient

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
	"github.com/troupe-dev/troupe/mcpclient/internal/supervise"
)

// A tenant's host whose actor fails is restarted, and stopped when it fails for the sixth
// time within a minute: its calls end, and those of other hosts, and the runtime, go on.
func TestTenantHostFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		tenant := func(name string) *Host {
			h, err := NewHost(sys, named("a"), &HostOptions{Options: Options{start: func(*Server) (pipe.Process, error) { return start(good), nil }}, Tenant: name})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Tools(t.Context()); err != nil {
				t.Fatal(err)
			}
			return h
		}
		ada, bob := tenant("ada"), tenant("bob")
		if got := ada.ref.Path(); got != "ada" && got[len(got)-4:] != "/ada" {
			t.Errorf("the tenant's actor is %q", got)
		}
		for range 6 {
			ada.ref.Send(supervise.Retry{}) // of no server: it panics
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		if _, err := ada.Call(t.Context(), "a__echo", nil, nil); err == nil {
			t.Error("Call of the tenant that is over: got no error")
		}
		if _, err := bob.Call(t.Context(), "a__echo", nil, nil); err != nil {
			t.Errorf("Call of another: got %v", err)
		}
		if n := sys.Census().Live(actors.KindTenant); n != 1 || sys.Err() != nil {
			t.Errorf("%d tenants are alive, the runtime: %v", n, sys.Err())
		}
		closeHost(t, bob)
		closeHost(t, ada)
	})
}

// ERA-01: hosts of the same servers learn from each other which era they belong to.
func TestLike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		first, err := NewHost(sys, named("a"), &HostOptions{Options: Options{start: func(*Server) (pipe.Process, error) { return start(good), nil }}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Tools(t.Context()); err != nil {
			t.Fatal(err)
		}
		second, err := NewHost(sys, named("a"), &HostOptions{Options: Options{Lazy: true, start: func(*Server) (pipe.Process, error) { return start(good), nil }}, Like: first})
		if err != nil {
			t.Fatal(err)
		}
		if got := second.eras.Get(named("a")[0].eraKey()); got != mcp.EraLegacy {
			t.Errorf("the era that the second knows: got %v", got)
		}
		closeHost(t, second)
		closeHost(t, first)
	})
}

// Only the servers that are named are started for a catalogue, and waited for.
func TestToolsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		var mu sync.Mutex // of those that are started at the same time
		var started []string
		h, err := NewHost(sys, named("a", "b", "c"), &HostOptions{Options: Options{Lazy: true, start: func(s *Server) (pipe.Process, error) {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, s.Name)
			return start(good), nil
		}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			of      []string
			started int
			tools   bool
		}{{[]string{"b"}, 1, true}, {[]string{"b"}, 1, true}, {[]string{"none"}, 1, true}, {nil, 3, true}} {
			tools, err := h.ToolsOf(t.Context(), tt.of...)
			if err != nil || (len(tools) > 0) != tt.tools || len(started) != tt.started {
				t.Errorf("ToolsOf(%q): got %d tools, %v; started %q, want %d", tt.of, len(tools), err, started, tt.started)
			}
		}
		closeHost(t, h)
	})
}
