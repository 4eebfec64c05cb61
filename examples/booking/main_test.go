package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// ada answers each question in the same way.
func ada(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
	return &mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{
		"name": json.RawMessage(`"Ada"`), "time": json.RawMessage(`"19:30"`),
	}}, nil
}

// One handler, over HTTP, for clients of both eras.
func TestBook(t *testing.T) {
	d := new(diary)
	s, err := newServer(d)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	defer s.Close()
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2026_07_28} {
		server := mcpclient.Server{Name: "booking", URL: web.URL, Protocol: string(v)}
		c, err := mcpclient.Dial(t.Context(), server, &mcpclient.Options{AskOptions: mcpclient.AskOptions{Human: mcpclient.HumanFunc(ada)}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.CallTool(t.Context(), "book_table", json.RawMessage(`{"people":4}`), nil)
		if err != nil || res.IsError {
			t.Fatalf("book_table of %s: got %+v, %v", v, res, err)
		}
		if got, want := res.Content[0].(*mcp.TextContent).Text, "Booked, 19:30: Ada, 4 people."; got != want {
			t.Errorf("book_table of %s: got %q, want %q", v, got, want)
		}
		c.Close()
	}
	if got, _ := d.read(t.Context()); got != "19:30: Ada, 4 people\n19:30: Ada, 4 people" {
		t.Errorf("the diary: got %q", got)
	}
}
