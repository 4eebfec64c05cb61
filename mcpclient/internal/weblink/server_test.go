package weblink

import (
	"context"
	"testing"

	"github.com/troupe-dev/troupe/actors"
)

// Clients with the same definition share what their links have in common; headers are those of the moment in
// which a link is made.
func TestShared(t *testing.T) {
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Shutdown(context.Background())
	d := Definition{Server: "x", URL: "http://mcp.test/mcp", System: sys}
	of := func(d Definition) *Server { return New(Options{Definition: d}) }
	a, b := of(d), of(d)
	first, err := a.linked()
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := b.linked(); second != first {
		t.Error("equal definitions share nothing")
	}
	other := d
	other.MaxMessage = 7
	if second, _ := of(other).linked(); second.MaxMessage != 7 || first.MaxMessage == 7 {
		t.Errorf("MaxMessage is %d and %d", first.MaxMessage, second.MaxMessage)
	}
	d.Headers = map[string]string{"X-Key": "one"}
	c := of(d)
	one, err := c.linked()
	if err != nil {
		t.Fatal(err)
	}
	d.Headers["X-Key"] = "two"
	two, _ := c.linked()
	if one.Header.Get("X-Key") != "one" || two.Header.Get("X-Key") != "two" {
		t.Errorf("the headers are %v and %v", one.Header, two.Header)
	}
	d.Headers["no name"] = ""
	if _, err := c.linked(); err == nil {
		t.Error("a header without a valid name was taken")
	}
}
