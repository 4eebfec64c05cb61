package mcpclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/icons"
	"github.com/troupe-dev/troupe/mcpclient/internal/loglimit"
)

// ICON-01, ICON-02, ICON-03: icons are passed on as far as they are safe: what they
// say they are, of the server's own origin, or within the description itself.
func TestSafeIcons(t *testing.T) {
	data := func(kind, content string) string {
		return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString([]byte(content))
	}
	const png, server = "\x89PNG\r\n\x1a\nrest", "https://example.com:443/mcp"
	tests := []struct {
		icon   mcp.Icon
		server string
		safe   bool
	}{
		{mcp.Icon{Src: "https://example.com/i.png", MIMEType: "image/png", Sizes: []string{"48x48"}, Theme: "dark"}, server, true},
		{mcp.Icon{Src: "https://EXAMPLE.com/i.png"}, server, true},
		{mcp.Icon{Src: "https://example.com:8443/i.png"}, server, false},
		{mcp.Icon{Src: "https://cdn.example.com/i.png"}, server, false},
		{mcp.Icon{Src: "https://u:p@example.com/i.png"}, server, false},
		{mcp.Icon{Src: "http://example.com/i.png"}, server, false},
		{mcp.Icon{Src: "https://example.com/i.png"}, "http://example.com/mcp", false},
		{mcp.Icon{Src: "https://example.com/i.png"}, "", false},
		{mcp.Icon{Src: "https://example.com/i.png", MIMEType: "text/html"}, server, false},
		{mcp.Icon{Src: "https:///i.png"}, server, false},
		{mcp.Icon{Src: "javascript:alert(1)"}, server, false},
		{mcp.Icon{Src: "file:///etc/passwd"}, server, false},
		{mcp.Icon{Src: "i.png"}, server, false},
		{mcp.Icon{Src: ""}, server, false},
		{mcp.Icon{Src: data("image/png", png)}, "", true},
		{mcp.Icon{Src: strings.Replace(data("image/png", png), "data", "DATA", 1)}, "", true},
		{mcp.Icon{Src: data("image/jpg", "\xff\xd8\xff\xe0")}, "", true},
		{mcp.Icon{Src: data("image/jpeg", "\xff\xd8\xff\xe0")}, "", true},
		{mcp.Icon{Src: data("image/webp", "RIFF\x00\x00\x00\x00WEBPVP8 ")}, "", true},
		{mcp.Icon{Src: data("image/webp", "RIFF\x00\x00\x00\x00WAVE")}, "", false},
		{mcp.Icon{Src: data("image/gif", "GIF89a")}, "", true},
		{mcp.Icon{Src: data("image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"/>`)}, "", true},
		{mcp.Icon{Src: `data:image/svg+xml;charset=utf-8,%3Csvg/%3E`}, "", true},
		{mcp.Icon{Src: data("image/svg+xml", `<html>`)}, "", false},
		{mcp.Icon{Src: data("image/png", "<html>")}, "", false},
		{mcp.Icon{Src: data("text/html", "<html>")}, "", false},
		{mcp.Icon{Src: "data:image/png;base64,***"}, "", false},
		{mcp.Icon{Src: "data:image/png"}, "", false},
		{mcp.Icon{Src: data("image/png", png+strings.Repeat("x", icons.Max))}, "", false},
	}
	for _, tt := range tests {
		got := SafeIcons([]mcp.Icon{tt.icon}, tt.server)
		if (len(got) == 1) != tt.safe || tt.safe && !reflect.DeepEqual(got[0], tt.icon) {
			t.Errorf("SafeIcons(%.60q, %q): got %v, want safe %v", tt.icon.Src, tt.server, len(got) == 1, tt.safe)
		}
	}
}

// TOOL-18: title, else annotated title, else name; others have no annotated one.
func TestDisplayName(t *testing.T) {
	for want, tool := range map[string]mcp.Tool{
		"A": {Name: "n", Title: "A", Annotations: &mcp.ToolAnnotations{Title: "B"}},
		"B": {Name: "n", Annotations: &mcp.ToolAnnotations{Title: "B"}},
		"n": {Name: "n", Annotations: &mcp.ToolAnnotations{}},
	} {
		if got := (&Tool{Server: "s", Name: "s__n", Tool: tool}).DisplayName(); got != want {
			t.Errorf("DisplayName: got %q, want %q", got, want)
		}
	}
}

// META-01, META-02, META-04: what the caller puts into _meta goes out unchanged, and
// the trace context of each request beside it, if it is in the form of the W3C.
func TestTraceContext(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	type key struct{}
	tests := []struct {
		name  string
		found map[string]string
		own   mcp.Meta
		want  map[string]string // the members that are sent
	}{
		{"none", nil, nil, nil},
		{"all", map[string]string{"traceparent": parent, "tracestate": "a=1,b=2", "baggage": "k=v;p=1", "odd": "x"}, nil,
			map[string]string{"traceparent": parent, "tracestate": "a=1,b=2", "baggage": "k=v;p=1"}},
		{"a later version", map[string]string{"traceparent": "01" + parent[2:] + "-more"}, nil, map[string]string{"traceparent": "01" + parent[2:] + "-more"}},
		{"no parent", map[string]string{"tracestate": "a=1", "baggage": "k=v"}, nil, map[string]string{"baggage": "k=v"}},
		{"upper case", map[string]string{"traceparent": strings.ToUpper(parent), "tracestate": "a=1"}, nil, nil},
		{"too much in version 00", map[string]string{"traceparent": parent + "-more"}, nil, nil},
		{"no such version", map[string]string{"traceparent": "ff" + parent[2:]}, nil, nil},
		{"no trace", map[string]string{"traceparent": "00-00000000000000000000000000000000-b7ad6b7169203331-01"}, nil, nil},
		{"no span", map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}, nil, nil},
		{"line ends", map[string]string{"traceparent": parent + "\n", "baggage": "a=1\r\nb=2"}, nil, nil},
		{"too long", map[string]string{"traceparent": parent, "tracestate": "a=" + strings.Repeat("x", 512), "baggage": strings.Repeat("x", 8193)}, nil, map[string]string{"traceparent": parent}},
		{"the caller's own", map[string]string{"traceparent": parent, "tracestate": "a=1", "baggage": "k=v"}, mcp.Meta{"traceparent": json.RawMessage(`"mine"`)},
			map[string]string{"traceparent": "mine", "baggage": "k=v"}},
	}
	for _, v := range []mcp.Version{mcp.V2025_03_26, mcp.V2026_07_28} {
		for _, tt := range tests {
			t.Run(fmt.Sprint(v, " ", tt.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(v, map[string]string{mcp.MethodCallTool: `{"content":[]}`, mcp.MethodListPrompts: `{"prompts":[]}`})
					c := w.dial(t, &Options{TraceContext: func(ctx context.Context) map[string]string {
						found, _ := ctx.Value(key{}).(map[string]string)
						return found
					}})
					own := mcp.Meta{"com.example/k": json.RawMessage(`{"a":[1]}`), "k": json.RawMessage("7")}
					for k, v := range tt.own {
						own[k] = v
					}
					n := len(own)
					ctx := context.WithValue(t.Context(), key{}, tt.found)
					if _, err := c.CallTool(ctx, "t", nil, &CallOptions{Meta: own}); err != nil {
						t.Fatal(err)
					}
					meta := sentMeta(t, w)
					if string(meta["com.example/k"]) != `{"a":[1]}` || string(meta["k"]) != "7" || len(own) != n {
						t.Errorf("sent %s", meta)
					}
					for _, k := range []string{"traceparent", "tracestate", "baggage", "odd"} {
						var got string
						_ = json.Unmarshal(meta[k], &got)
						if got != tt.want[k] {
							t.Errorf("%s: got %q, want %q", k, got, tt.want[k])
						}
					}
					if tt.own != nil {
						return
					}
					if _, err := c.ListPrompts(ctx); err != nil { // also of what is not called for
						t.Fatal(err)
					}
					if got := sentMeta(t, w)["traceparent"]; (len(got) > 0) != (tt.want["traceparent"] != "") {
						t.Errorf("of a list: got %s", got)
					}
				})
			})
		}
	}
}

// sentMeta is the _meta of the newest request.
func sentMeta(t *testing.T, w *wire) mcp.Meta {
	t.Helper()
	_, params := w.last(t)
	var meta mcp.Meta
	if raw := params["_meta"]; raw != nil {
		if err := json.Unmarshal(raw, &meta); err != nil {
			t.Fatal(err)
		}
	}
	return meta
}

// LOG-02, LOG-03, LOG-05: in 2026-07-28 each request says what it wants to hear, its
// own wish before the client's; earlier revisions are told once, and not in _meta.
func TestLogLevels(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				modern := v.Era() == mcp.EraModern
				w := newWire(v, map[string]string{mcp.MethodCallTool: `{"content":[]}`, mcp.MethodSetLevel: `{}`})
				c := w.dial(t, nil)
				sends := func(want string, opts *CallOptions) {
					t.Helper()
					if _, err := c.CallTool(t.Context(), "t", nil, opts); err != nil {
						t.Fatal(err)
					}
					if !modern {
						want = ""
					}
					if got := string(sentMeta(t, w)[mcp.MetaLogLevel]); got != want {
						t.Errorf("level: got %s, want %s", got, want)
					}
				}
				sends("", nil)
				sends(`"debug"`, &CallOptions{LogLevel: mcp.LogDebug})
				sends("", nil)
				w.heard()
				if err := c.SetLogLevel(t.Context(), mcp.LogWarning); err != nil {
					t.Fatal(err)
				}
				if told := len(w.heard()) == 1; told == modern {
					t.Errorf("told by a request: got %v", told)
				}
				sends(`"warning"`, nil)
				sends(`"alert"`, &CallOptions{LogLevel: mcp.LogAlert})
				if err := c.SetLogLevel(t.Context(), "loud"); err == nil {
					t.Error("a level that there is not: got no error")
				}
			})
		})
	}
}

// LOG-04, LOG-06: log messages of any data are passed on, so many a second; what is
// too much is counted, and a malformed one harms nobody.
func TestLogsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []mcp.LogParams
		var log syncBuilder
		w := newWire(mcp.V2025_11_25, nil)
		w.dial(t, &Options{Logger: logTo(&log), OnLog: func(_ string, p mcp.LogParams) { mu.Lock(); defer mu.Unlock(); got = append(got, p) }})
		heard := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			n := len(got)
			got = nil
			return n
		}
		for _, data := range []string{`"text"`, `null`, `{"a":1}`, `[1]`, `7`} {
			w.notify(mcp.NotificationMessage, `{"level":"info","logger":"l","data":`+data+`}`)
		}
		for _, bad := range []string{`{}`, `{"level":"loud","data":1}`, `{"level":"info"}`, `{"level":7,"data":1}`} {
			w.notify(mcp.NotificationMessage, bad)
		}
		if n := heard(); n != 5 {
			t.Errorf("heard %d messages, want 5", n)
		}
		flood := func(n int) (passed int) {
			for range n {
				w.notify(mcp.NotificationMessage, `{"level":"info","data":1}`)
				passed += heard()
			}
			return passed
		}
		if n := flood(3000); n != loglimit.Burst-9 {
			t.Errorf("of a flood: heard %d, want what is left of %d", n, loglimit.Burst)
		}
		time.Sleep(time.Second)
		if n := flood(3000); n != loglimit.Rate {
			t.Errorf("a second later: heard %d, want %d", n, loglimit.Rate)
		}
		if !strings.Contains(log.String(), "dropped=2009") {
			t.Error("nothing says how many were dropped")
		}
	})
}

// EXT-01, EXT-02, EXT-06, CAP-09: extensions that the program understands are declared
// as it says, in whatever revision; those of the server are found.
func TestExtensions(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2026_07_28} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(v, map[string]string{mcp.MethodCallTool: `{"content":[]}`})
			w.caps = `{"tools":{},"extensions":{"com.example/b":{"x":[1]},"com.example/c":{}},"odd":{}}`
			c := w.dial(t, &Options{Extensions: map[string]json.RawMessage{"com.example/a": json.RawMessage(`{"max":3}`)}})
			info, err := c.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for id, want := range map[string]string{"com.example/b": `{"x":[1]}`, "com.example/c": `{}`, "com.example/a": ""} {
				if settings, ok := info.Extension(id); string(settings) != want || ok != (want != "") {
					t.Errorf("Extension(%q): got %s, %v, want %s", id, settings, ok, want)
				}
			}
			if v.Era() != mcp.EraModern {
				return
			}
			if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
				t.Fatal(err)
			}
			caps, err := sentMeta(t, w).ClientCapabilities()
			if settings, ok := caps.Extension("com.example/a"); err != nil || !ok || string(settings) != `{"max":3}` {
				t.Errorf("declared %s, %v, %v", settings, ok, err)
			}
		})
	}
	if _, ok := (*Info)(nil).Extension("com.example/a"); ok {
		t.Error("the extension of nothing is there")
	}
	for id, settings := range map[string]string{"noprefix": `{}`, "": `{}`, "com.example/": `[]`, "com.example/x": `null`, "com..example/x": `{}`, "com.example/y": `{`} {
		extensions := map[string]json.RawMessage{id: json.RawMessage(settings)}
		if _, err := Dial(t.Context(), InProcess("x", newWire(mcp.V2026_07_28, nil)), &Options{Lazy: true, Extensions: extensions}); err == nil {
			t.Errorf("Dial with the extension %q of %s: got no error", id, settings)
		}
		if _, err := NewHost(realSystem(t), nil, &HostOptions{Options: Options{Extensions: extensions}}); err == nil {
			t.Errorf("NewHost with the extension %q of %s: got no error", id, settings)
		}
	}
}

// BASE-12, EXT-02, EXT-03: a result of a type that an extension adds is returned by
// Request to whoever has declared the extension, and refused otherwise.
func TestResultTypesOfExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2026_07_28, map[string]string{"com.example/do": `{"resultType":"com.example/later","x":1}`})
		c := w.dial(t, &Options{Extensions: map[string]json.RawMessage{"com.example/do": json.RawMessage(`{}`)}})
		raw, err := c.Request(t.Context(), "com.example/do", nil, &CallOptions{ResultTypes: []string{"com.example/later"}})
		if err != nil || !strings.Contains(string(raw), `"x":1`) {
			t.Errorf("Request: got %s, %v", raw, err)
		}
		if _, err := c.Request(t.Context(), "com.example/do", nil, nil); !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("Request without a word of it: got %v, want %v", err, call.ErrInvalidResponse)
		}
	})
}

// FuzzDescriptions: whatever a server says of a tool is described, the same way each
// time, and nothing that is not safe passes as an icon.
func FuzzDescriptions(f *testing.F) {
	f.Add(plainTool, "data:image/png;base64,iVBORw0KGgo=")
	f.Add(`{"name":"\u202e","title":"\u001b[2m","inputSchema":{"a":1e999},"outputSchema":[],"annotations":{"title":"\udb40\udc49"}}`, "data:image/svg+xml,<svg/>")
	f.Add(`{"name":"rеad","inputSchema":{}}`, "https://example.com/i.png")
	f.Fuzz(func(t *testing.T, definition, icon string) {
		for _, i := range SafeIcons([]mcp.Icon{{Src: icon}}, "https://example.com/mcp") {
			if len(i.Src) > icons.Max || !strings.HasPrefix(strings.ToLower(i.Src), "data:image/") && !strings.HasPrefix(strings.ToLower(i.Src), "https://") {
				t.Errorf("SafeIcons passes %q", i.Src)
			}
		}
		var tool mcp.Tool
		if mcp.Unmarshal([]byte(definition), &tool) != nil {
			return
		}
		a, b := describe(&Server{Name: "s"}, &tool), describe(&Server{Name: "s"}, &tool)
		if a.Hash == "" || a.Hash != b.Hash || len(ToolChanges(&tool, &tool)) > 0 && HashTool(&tool) != "" {
			t.Errorf("%s: hashes %q and %q, changes %v", definition, a.Hash, b.Hash, ToolChanges(&tool, &tool))
		}
		flagLookAlikes([]Tool{a, b})
	})
}

// HDR-03: a raw request names what the transport repeats; META-04: its _meta is
// merged with the options'.
func TestRawRequest(t *testing.T) {
	for _, tt := range []struct{ method, params, name string }{
		{mcp.MethodReadResource, `{"uri":"x:a"}`, "x:a"}, {mcp.MethodGetPrompt, `{"name":"p"}`, "p"}, {mcp.MethodCallTool, `{"name":"t","uri":"x:a"}`, "t"},
		{mcp.MethodGetTask, `{"taskId":"7"}`, "7"}, {mcp.MethodCancelTask, `{"taskId":"7"}`, "7"}, {mcp.MethodUpdateTask, `{"taskId":"7"}`, "7"},
		{mcp.MethodListTools, `{"name":"t"}`, ""}, {mcp.MethodCallTool, `{"name":7}`, ""}, {mcp.MethodCallTool, ``, ""}, {"com.example/do", `{"name":"t"}`, ""},
	} {
		opts := &CallOptions{Meta: mcp.Meta{"a": json.RawMessage("1")}, LogLevel: mcp.LogInfo, Idle: time.Second, Max: time.Minute, Safe: true}
		req, err := rawRequest(tt.method, json.RawMessage(tt.params), opts)
		if err != nil || req.Name != tt.name || string(req.Meta["a"]) != "1" || req.Idle != time.Second || req.Max != time.Minute || !req.Safe {
			t.Errorf("rawRequest(%s, %s): got %+v, %v, want the name %q", tt.method, tt.params, req, err, tt.name)
		}
	}
	req, err := rawRequest("m", json.RawMessage(`{"x":1,"_meta":{"a":2,"b":3}}`), &CallOptions{Meta: mcp.Meta{"a": json.RawMessage("1")}})
	if err != nil || string(req.Params) != `{"x":1}` || string(req.Meta["a"]) != "1" || string(req.Meta["b"]) != "3" {
		t.Errorf("rawRequest with _meta: got %+v, %v", req, err)
	}
	for _, bad := range []string{`[]`, `7`, `{`, `{"_meta":7}`, `{"a":1,"a":2}`} {
		if _, err := rawRequest("m", json.RawMessage(bad), nil); err == nil {
			t.Errorf("rawRequest(%s): got no error", bad)
		}
	}
}
