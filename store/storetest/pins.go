package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// testPins: one definition is remembered for each tool, and servers of one name in
// two files have nothing to do with each other (SECA-38).
func testPins(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	at := store.Clock(time.Now())
	pin := func(source, server, tool, hash string) store.Pin {
		t.Helper()
		p := store.Pin{Source: source, Server: server, Tool: tool, Hash: hash, At: at}
		if err := s.SetPin(t.Context(), p); err != nil {
			t.Fatalf("SetPin(%+v): %v", p, err)
		}
		return p
	}
	b2 := pin("b.json", "x", "t2", "h1")
	a1 := pin("a.json", "x", "t1", "h1")
	b1 := pin("b.json", "x", "t1", "h2")
	by := pin("b.json", "y", "t1", "h3")

	for _, want := range []store.Pin{a1, b1, b2, by} {
		got, ok, err := s.Pin(t.Context(), want.Source, want.Server, want.Tool)
		if err != nil || !ok {
			t.Fatalf("Pin: got %v, %v, want true", ok, err)
		}
		wantEqual(t, "Pin", got, want)
	}
	for _, miss := range [][3]string{{"a.json", "x", "t2"}, {"A.json", "x", "t1"}, {"a.json", "X", "t1"}, {"a.json", "x", "T1"},
		{"a.json", "x", ""}, {"a.json", "x", "%"}, {"", "", ""}} {
		if _, ok, err := s.Pin(t.Context(), miss[0], miss[1], miss[2]); ok || err != nil {
			t.Errorf("Pin(%q): got %v, %v, want false", miss, ok, err)
		}
	}
	list, err := s.Pins(t.Context())
	wantErr(t, "Pins", err, nil)
	wantEqual(t, "Pins", list, []store.Pin{a1, b1, b2, by})

	b1 = pin("b.json", "x", "t1", "h9")
	got, _, err := s.Pin(t.Context(), "b.json", "x", "t1")
	wantErr(t, "Pin", err, nil)
	wantEqual(t, "Pin set again", got, b1)

	wantErr(t, "Unpin", s.Unpin(t.Context(), "b.json", "x", "t1"), nil)
	wantErr(t, "Unpin again", s.Unpin(t.Context(), "b.json", "x", "t1"), store.ErrNotFound)
	wantErr(t, "Unpin of a pattern", s.Unpin(t.Context(), "b.json", "%", ""), store.ErrNotFound)
	pin("b.json", "x", "t1", "h1")
	wantErr(t, "Unpin of a server", s.Unpin(t.Context(), "b.json", "x", ""), nil)
	list, err = s.Pins(t.Context())
	wantErr(t, "Pins", err, nil)
	wantEqual(t, "Pins after Unpin", list, []store.Pin{a1, by})

	for _, bad := range []store.Pin{{Server: "x", Tool: "t", Hash: "h"}, {Source: "f", Tool: "t", Hash: "h"},
		{Source: "f", Server: "x", Hash: "h"}, {Source: "f", Server: "x", Tool: "t"}} {
		wantErr(t, fmt.Sprintf("SetPin(%+v)", bad), s.SetPin(t.Context(), bad), store.ErrInvalid)
	}
}
