package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// RES-03: one read may have several contents, of text or bytes; HDR-03: the
// transport is told the URI.
func TestReadResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_06_18, map[string]string{mcp.MethodReadResource: `{"contents":[
			{"uri":"x:d/a","mimeType":"text/plain","text":"A","_meta":{"k":1},"odd":2},{"uri":"x:d/b","blob":"AAH/"},{"uri":"x:d/c","text":""}],"more":3}`})
		c := w.dial(t, nil)
		res, err := c.ReadResource(t.Context(), "x:d", nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []mcp.ResourceContents{
			{URI: "x:d/a", MIMEType: "text/plain", Text: "A", Meta: res.Contents[0].Meta, Extra: res.Contents[0].Extra},
			{URI: "x:d/b", Blob: []byte{0, 1, 255}}, {URI: "x:d/c"},
		}
		if !reflect.DeepEqual(res.Contents, want) || res.Contents[0].Meta["k"] == nil || res.Contents[0].Extra["odd"] == nil || res.Extra["more"] == nil {
			t.Errorf("ReadResource: got %+v", res)
		}
		out, params := w.last(t)
		if out.Name != "x:d" || string(params["uri"]) != `"x:d"` {
			t.Errorf("sent %s with the name %q", out.Frame, out.Name)
		}
	})
}

// RES-04: a missing resource is known by either code, from a server of any revision,
// and the error says which. Other failures are not taken for it.
func TestResourceNotFound(t *testing.T) {
	tests := []struct {
		version mcp.Version
		answer  string
		found   bool // it is not said to be missing
	}{
		{mcp.V2025_11_25, `!{"code":-32002,"message":"Resource not found","data":{"uri":"x:a"}}`, false},
		{mcp.V2025_11_25, `!{"code":-32002,"message":"gone"}`, false},
		{mcp.V2025_11_25, `!{"code":-32602,"message":"Resource not found","data":{"uri":"x:a"}}`, false},
		{mcp.V2025_11_25, `!{"code":-32602,"message":"bad"}`, true},
		{mcp.V2025_11_25, `!{"code":-32603,"message":"bad","data":{"uri":"x:a"}}`, true},
		{mcp.V2026_07_28, `!{"code":-32602,"message":"Resource not found","data":{"uri":"x:a"}}`, false},
		{mcp.V2026_07_28, `!{"code":-32602,"message":"Resource not found"}`, false},
		{mcp.V2026_07_28, `!{"code":-32002,"message":"Resource not found"}`, false},
		{mcp.V2026_07_28, `!{"code":-32000,"message":"Resource not found"}`, true}, // BASE-17: no meaning there
		{mcp.V2026_07_28, `{"contents":[]}`, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.version, tt.answer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(tt.version, map[string]string{mcp.MethodReadResource: tt.answer})
				_, err := w.dial(t, nil).ReadResource(t.Context(), "x:a", nil)
				var missing *NotFoundError
				if is := errors.Is(err, ErrNotFound); is == tt.found || is && (!errors.As(err, &missing) || missing.URI != "x:a") {
					t.Errorf("ReadResource: got %v, want found %v", err, tt.found)
				}
				if is := errors.As(err, new(*mcp.Error)); is != strings.HasPrefix(tt.answer, "!") {
					t.Errorf("ReadResource: got %v, which hides what the server said", err)
				}
			})
		})
	}
}

// RES-08: what is no URI is not asked for, and what is no contents is not taken.
func TestBadResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_11_25, nil)
		c := w.dial(t, nil)
		for _, uri := range []string{"", "a", "/a", "//a", "x:a b", "x:\n", "x:\x7f", "x:\xff", "1x:a", "%41:a", "x:%zz", "x:" + strings.Repeat("a", 16<<10)} {
			if _, err := c.ReadResource(t.Context(), uri, nil); err == nil || errors.Is(err, ErrNotFound) {
				t.Errorf("ReadResource(%.20q): got %v", uri, err)
			}
		}
		if got := w.heard(); len(got) != 0 {
			t.Errorf("asked %v", got)
		}
		for _, uri := range []string{"file:///a", "git://x/y?z#w", "urn:isbn:1", "custom+x.y-z:1", "ui://app/ü", "https://[::1]/"} { // RES-07
			w.methods[mcp.MethodReadResource] = func(*mcp.Message) string { return `{"contents":[]}` }
			if _, err := c.ReadResource(t.Context(), uri, nil); err != nil {
				t.Errorf("ReadResource(%q): %v", uri, err)
			}
		}
		for _, result := range []string{`{}`, `{"contents":null}`, `{"contents":{}}`, `{"contents":[{"uri":"x:a"}]}`, `{"contents":[{"text":"a"}]}`,
			`{"contents":[{"uri":"x:a","text":"a","blob":""}]}`, `{"contents":[{"uri":"x:a","blob":"a b"}]}`, `{"contents":[{"uri":"x:a","blob":"AA"}]}`} {
			w.methods[mcp.MethodReadResource] = func(*mcp.Message) string { return result }
			if _, err := c.ReadResource(t.Context(), "x:a", nil); !errors.Is(err, call.ErrInvalidResponse) {
				t.Errorf("ReadResource with %s: got %v, want %v", result, err, call.ErrInvalidResponse)
			}
		}
	})
}

// CACHE-02, CACHE-03, CACHE-05, CACHE-06, SECA-47: what was read is used again as
// long as the server says, for the same URI and, if it is private, the same
// principal, until a notice about it, or about something above or below it.
func TestReadsAreKept(t *testing.T) {
	const private, public = `"cacheScope":"private"`, `"cacheScope":"public"`
	tests := []struct {
		name    string
		version mcp.Version
		ttl     string
		scope   string
		between func(c *Client, w *wire, who *atomic.Value)
		uri     string // "" is the same
		opts    *CallOptions
		again   bool // it is asked again
	}{
		{name: "fresh", ttl: "5000", scope: private},
		{name: "public, another principal", ttl: "5000", scope: public, between: func(_ *Client, _ *wire, who *atomic.Value) { who.Store("bob") }},
		{name: "private, another principal", ttl: "5000", scope: private, between: func(_ *Client, _ *wire, who *atomic.Value) { who.Store("bob") }, again: true},
		{name: "no scope, another principal", ttl: "5000", scope: `"x":1`, between: func(_ *Client, _ *wire, who *atomic.Value) { who.Store("bob") }, again: true},
		{name: "stale", ttl: "5000", scope: public, between: func(*Client, *wire, *atomic.Value) { time.Sleep(5 * time.Second) }, again: true},
		{name: "nought", ttl: "0", scope: public, again: true},
		{name: "negative", ttl: "-1", scope: public, again: true},
		{name: "absent", ttl: "null", scope: public, again: true},
		{name: "legacy", version: mcp.V2025_11_25, ttl: "5000", scope: public, again: true},
		{name: "another URI", ttl: "5000", scope: public, uri: "x:d/other", again: true},
		{name: "another spelling", ttl: "5000", scope: public, uri: "X:d/a", again: true},
		{name: "asked for", ttl: "5000", scope: public, opts: &CallOptions{Fresh: true}, again: true},
		{name: "updated", ttl: "5000", scope: public, between: updated("x:d/a"), again: true},
		{name: "updated above", ttl: "5000", scope: public, between: updated("x:d"), again: true},
		{name: "updated below", ttl: "5000", scope: public, between: updated("x:d/a/b"), again: true},
		{name: "another updated", ttl: "5000", scope: public, between: updated("x:d/ab")},
		{name: "list changed", ttl: "5000", scope: public, between: listChanged, again: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.version == "" {
					tt.version = mcp.V2026_07_28
				}
				w := newWire(tt.version, map[string]string{mcp.MethodReadResource: `{"contents":[],"ttlMs":` + tt.ttl + `,` + tt.scope + `}`})
				if tt.ttl == "null" {
					w = newWire(tt.version, map[string]string{mcp.MethodReadResource: `{"contents":[],` + tt.scope + `}`})
				}
				var who atomic.Value
				who.Store("ann")
				c := w.dial(t, &Options{Principal: func(string) string { return who.Load().(string) }})
				if _, err := c.ReadResource(t.Context(), "x:d/a", nil); err != nil {
					t.Fatal(err)
				}
				if tt.between != nil {
					tt.between(c, w, &who)
					synctest.Wait()
				}
				w.heard()
				if tt.uri == "" {
					tt.uri = "x:d/a"
				}
				if _, err := c.ReadResource(t.Context(), tt.uri, tt.opts); err != nil {
					t.Fatal(err)
				}
				if again := len(w.heard()) > 0; again != tt.again {
					t.Errorf("asked again: got %v, want %v", again, tt.again)
				}
			})
		})
	}
}

func listChanged(c *Client, w *wire, _ *atomic.Value) {
	if _, err := c.Listen(context.Background(), mcp.SubscriptionFilter{ResourcesListChanged: true}, func(Notice) {}); err != nil {
		panic(err)
	}
	w.notify(mcp.NotificationResourcesChanged, `{}`)
}

func updated(uri string) func(*Client, *wire, *atomic.Value) {
	return func(c *Client, w *wire, _ *atomic.Value) {
		if _, err := c.Subscribe(context.Background(), uri, func(string) {}); err != nil {
			panic(err)
		}
		w.notify(mcp.NotificationResourceUpdated, `{"uri":"`+uri+`"}`)
	}
}

// CACHE-04, MRTR-18: the answer to a retry with what the server had asked for is not
// kept, whatever it says.
func TestAnswersToRetriesAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2026_07_28, nil)
		w.methods[mcp.MethodReadResource] = func(m *mcp.Message) string {
			var p mcp.ReadResourceParams
			if err := m.DecodeParams(&p); err != nil {
				t.Error(err)
			}
			if p.RequestState == nil {
				return `{"resultType":"input_required","inputRequests":{},"requestState":"s"}`
			}
			return `{"resultType":"complete","contents":[],"ttlMs":60000,"cacheScope":"public"}`
		}
		c := w.dial(t, nil)
		for range 2 {
			if _, err := c.ReadResource(t.Context(), "x:a", nil); err != nil {
				t.Fatal(err)
			}
			if got := w.heard(); len(got) != 2 {
				t.Errorf("asked %v, want the question and its retry", got)
			}
		}
	})
}

// SECA-42, CONT-02: links in results are passed on and never fetched.
func TestLinksAreNotFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_11_25, map[string]string{mcp.MethodCallTool: `{"content":[
			{"type":"resource_link","uri":"http://169.254.169.254/latest","name":"a","icons":[{"src":"http://localhost/i.png"}]},
			{"type":"resource_link","uri":"file:///etc/passwd","name":"b"},{"type":"resource_link","uri":"x:a","name":"c"},
			{"type":"hologram","src":"http://localhost/"}]}`})
		res, err := w.dial(t, nil).CallTool(t.Context(), "any", nil, nil)
		if err != nil || len(res.Content) != 4 {
			t.Fatalf("CallTool: got %+v, %v", res, err)
		}
		if u, ok := res.Content[3].(*mcp.UnknownContent); !ok || string(u.Raw) != `{"type":"hologram","src":"http://localhost/"}` { // BASE-13, CONT-01
			t.Errorf("the unknown block: got %+v", res.Content[3])
		}
		time.Sleep(time.Hour)
		if got := w.heard(); len(got) != 1 {
			t.Errorf("the server was asked %v, want the call alone", got)
		}
	})
}

// RES-02: a template is filled in and read; TOOL-13 does not come into it.
func TestTemplates(t *testing.T) {
	uri, err := ExpandTemplate("db://{table}{/id*}{?q}", map[string]any{"table": "a b", "id": []string{"1", "2"}})
	if want := "db://a%20b/1/2"; uri != want || err != nil {
		t.Errorf("ExpandTemplate: got %q, %v, want %q", uri, err, want)
	}
	if uri, err := ExpandTemplate("db://{table}", map[string]string{"table": "t"}); uri != "db://t" || err != nil {
		t.Errorf("ExpandTemplate with strings: got %q, %v", uri, err)
	}
	values, ok, err := MatchTemplate("db://{table}{/id*}{?q}", uri)
	if !ok || err != nil || values["table"] != "a b" {
		t.Errorf("MatchTemplate: got %v, %v, %v", values, ok, err)
	}
	if names, err := TemplateNames("{a}{?b}"); strings.Join(names, " ") != "a b" || err != nil {
		t.Errorf("TemplateNames: got %v, %v", names, err)
	}
	for _, bad := range []string{"{", strings.Repeat("{+a}", 25_000)} { // SECA-10
		_, errA := ExpandTemplate[string](bad, nil)
		_, _, errB := MatchTemplate(bad, "x:a")
		_, errC := TemplateNames(bad)
		if errA == nil || errB == nil || errC == nil {
			t.Errorf("a bad template %.10q: got %v, %v, %v", bad, errA, errB, errC)
		}
	}
}
