package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type h = map[string]string

// SHM-04, SHM-06, SHM-10, SHL-10, SHL-12, SHL-50, ERA-10, ERA-12: all on one URL and at
// once.
func TestWebCall(t *testing.T) {
	eachWebVersion(t, nil, func(t *testing.T, w *web, _ *gate) {
		got := w.post(call(w.version, 7, "echo", `{"text":"hello"}`), h{"Last-Event-Id": "9"}) // SHM-08
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" || got.id() != "7" || !strings.Contains(got.body, "hello") {
			t.Errorf("got %v, want the echo as JSON", got)
		}
		if got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
			t.Errorf("got Content-Length %q for %d bytes", got.header.Get("Content-Length"), len(got.body))
		}
		if id := got.header.Get("Mcp-Session-Id"); id != "" {
			t.Errorf("got the session id %q again", id)
		}
		long := strings.Repeat("x", 100_000)
		if got := w.post(call(w.version, "long", "echo", `{"text":"`+long+`"}`)); got.status != http.StatusOK || strings.Count(got.body, long) < 1 {
			t.Errorf("a long text: got %v", got)
		}
		if got := w.post(request(w.version, 8, "tools/list", "{}"), h{"Accept": "*/*", "Content-Type": "Application/JSON; charset=UTF-8"}); got.status != http.StatusOK { // SHL-18
			t.Errorf("tools/list: got %v", got)
		}
	})
}

// SHL-13, SHM-06, SHM-07, PROG-02, LOG-03: what belongs to a request comes before its
// answer, which is the last.
func TestWebStream(t *testing.T) {
	eachWebVersion(t, nil, func(t *testing.T, w *web, _ *gate) {
		got := w.post(request(w.version, 1, "tools/call", `{"name":"steps","arguments":{"text":"on","n":3},"_meta":{"progressToken":"p"}}`))
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("got %v", got)
		}
		n := len(got.messages)
		if n < 2 || got.id() != "1" || slices.ContainsFunc(got.messages[:n-1], func(m string) bool { return !strings.Contains(m, `"notifications/progress"`) }) {
			t.Errorf("got %q, want progress and then the answer", got.messages)
		}
		if hasIDs := strings.Contains(got.body, "id: "); hasIDs != (w.version.Era() == mcp.EraLegacy) { // SHM-08
			t.Errorf("event ids: got %v", hasIDs)
		}
		wants := w.version.Era() == mcp.EraLegacy // LOG-05: modern requests say so each
		got = w.post(call(w.version, 2, "log", `{"text":"secretive"}`))
		if logs := strings.Contains(got.body, "notifications/message"); logs != wants {
			t.Errorf("log messages: got %v, want %v", logs, wants)
		}
	})
}

// WIRE-13, SHL-40: an answer that takes long becomes a stream, which can be kept alive
// and, since 2025-11-25, resumed.
func TestWebLongCall(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
		webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
			if err := mcpserver.AddTool(s, &mcp.Tool{Name: "long"}, func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) {
				time.Sleep(time.Minute)
				return "slept", nil
			}); err != nil {
				t.Fatal(err)
			}
			w := newWeb(t, client, v)
			w.open()
			got := w.post(call(v, 1, "long", `{}`))
			if got.status != http.StatusOK || got.header.Get("Content-Type") != "text/event-stream" || len(got.messages) != 1 || !strings.Contains(got.last(), "slept") {
				t.Fatalf("%s: got %v", v, got)
			}
			if n := strings.Count("\n"+got.body, "\n:"); n < 2 || strings.Contains(got.body, "id:") != (v == mcp.V2025_11_25) {
				t.Errorf("%s: got %d comments in %q", v, n, got.body)
			}
			first, err := sse.NewReader(strings.NewReader(got.body), 0).Next()
			if primed := err == nil && first.HasID && first.HasRetry && len(first.Data) == 0; primed != (v == mcp.V2025_11_25) {
				t.Errorf("%s: the first event: got %+v, %v", v, first, err)
			}
		})
	}
}

// CAP-05, MOD-06, ERA-10, ERA-12: nothing that one request says is held of another,
// whatever is remembered of who has sent them.
func TestWebSenders(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		const v = mcp.V2026_07_28
		w, old := newWeb(t, client, v), newWeb(t, client, mcp.V2025_11_25)
		old.open()
		for i := range 600 {
			form, name := i%2 == 0, fmt.Sprintf("client-%d", i%7)
			frame := strings.Replace(call(v, i, "who", `{}`), `"name":"peer"`, fmt.Sprintf(`"name":%q`, name), 1)
			if !form {
				frame = strings.Replace(frame, `{"elicitation":{"form":{}}}`, "{}", 1)
			}
			got := w.post(frame)
			if !strings.Contains(got.body, fmt.Sprintf(`"client":%q`, name)) || !strings.Contains(got.body, fmt.Sprintf(`"form":%v`, form)) || strings.Contains(got.body, `"version":"2025-11-25"`) {
				t.Fatalf("%s, form %v: got %s", name, form, got.body)
			}
			if i%100 == 0 {
				if got := old.post(call(old.version, i, "who", `{}`)); !strings.Contains(got.body, `"client":"web"`) || !strings.Contains(got.body, `"version":"2025-11-25"`) {
					t.Fatalf("a legacy client: got %s", got.body)
				}
			}
		}
	})
}

type statusTest struct {
	name   string
	frame  string
	header h
	status int
	code   int64
	id     string
}

func (w *web) expectStatus(t *testing.T, tests []statusTest) {
	t.Helper()
	for _, tt := range tests {
		got := w.post(tt.frame, tt.header)
		if got.status != tt.status || got.code() != tt.code || got.id() != tt.id {
			t.Errorf("%s: got %v, want %d, code %d, id %q", tt.name, got, tt.status, tt.code, tt.id)
		}
	}
	if got := w.post(call(w.version, "after", "echo", `{"text":"x"}`)); got.status != http.StatusOK || got.id() != `"after"` { // ROB-2
		t.Errorf("afterwards: got %v", got)
	}
}

// Every row of SHM-12 that a request can reach, in the order of SHM-15; SHM-03,
// SHM-05, SHM-14, SHM-16, SHM-17, SHM-18, MOD-01, MOD-02, MOD-09, HDR-01 to HDR-05,
// HDR-12, BASE-16, SECA-2.
func TestWebModernStatus(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		const v = mcp.V2026_07_28
		w := newWeb(t, client, v)
		echo := call(v, 1, "echo", `{"text":"x"}`)
		list := request(v, 1, "tools/list", "{}")
		const caps = `"io.modelcontextprotocol/clientCapabilities":{}`
		meta := func(meta string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{%s}}}`, meta)
		}
		version := func(v string) string {
			return meta(fmt.Sprintf(`"io.modelcontextprotocol/protocolVersion":%q,%s`, v, caps))
		}
		w.expectStatus(t, []statusTest{
			{"unknown tool", call(v, 1, "nope", "{}"), nil, 200, mcp.CodeInvalidParams, "1"},
			{"not the arguments", call(v, 1, "echo", `[]`), nil, 200, mcp.CodeInvalidParams, "1"},
			{"error of the handler", call(v, 1, "refuse", `{}`), nil, 200, 1234, "1"},
			{"panic", call(v, 1, "panic", `{}`), nil, 200, mcp.CodeInternal, "1"},
			{"notification", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, nil, 202, 0, ""},
			{"notification without method header", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, h{"Mcp-Method": "-"}, 202, 0, ""},
			{"notification of the future", `{"jsonrpc":"2.0","method":"notifications/x"}`, h{"Mcp-Protocol-Version": "2029-01-01"}, 400, mcp.CodeUnsupportedVersion, ""},
			{"unknown version", version("v999.0.0"), h{"Mcp-Protocol-Version": "v999.0.0"}, 400, mcp.CodeUnsupportedVersion, "1"},
			{"unknown version, no method header", version("2029-01-01"), h{"Mcp-Protocol-Version": "2029-01-01", "Mcp-Method": "-"}, 400, mcp.CodeUnsupportedVersion, "1"},
			{"legacy version in _meta", version("2025-11-25"), h{"Mcp-Protocol-Version": "2025-11-25"}, 400, mcp.CodeUnsupportedVersion, "1"},
			{"no _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, 400, mcp.CodeInvalidParams, "1"},
			{"no version in _meta", meta(caps), nil, 400, mcp.CodeInvalidParams, "1"},
			{"version is no string", meta(`"io.modelcontextprotocol/protocolVersion":1,` + caps), nil, 400, mcp.CodeInvalidParams, "1"},
			{"no capabilities in _meta", meta(`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`), nil, 400, mcp.CodeInvalidParams, "1"},
			{"no capabilities, and no header", meta(`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`), h{"Mcp-Protocol-Version": "-", "Mcp-Method": "-"}, 400, mcp.CodeInvalidParams, "1"},
			{"no version header", list, h{"Mcp-Protocol-Version": "-"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"another version header", list, h{"Mcp-Protocol-Version": "2025-11-25"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"no method header", list, h{"Mcp-Method": "-"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"wrong method header", list, h{"Mcp-Method": "prompts/list"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"method in capitals", list, h{"Mcp-Method": "Tools/List"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"header's name in capitals, blanks", list, h{"MCP-METHOD": " tools/list "}, 200, 0, "1"},
			{"no name header", echo, h{"Mcp-Name": "-"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"empty name header", echo, h{"Mcp-Name": ""}, 400, mcp.CodeHeaderMismatch, "1"},
			{"wrong name header", echo, h{"Mcp-Name": "fail"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"encoded name header", echo, h{"Mcp-Name": "=?base64?ZWNobw==?="}, 200, 0, "1"},
			{"badly encoded name header", echo, h{"Mcp-Name": "=?base64?ZWNobw?="}, 400, mcp.CodeHeaderMismatch, "1"},
			{"name header without a name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{` + modernMeta + `}}}`, h{"Mcp-Name": "echo"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"name header where none is due", list, h{"Mcp-Name": "echo"}, 200, 0, "1"},
			{"unknown method", request(v, "m", "unknown/method", "{}"), nil, 404, mcp.CodeMethodNotFound, `"m"`},
			{"initialize", request(v, 1, "initialize", "{}"), nil, 404, mcp.CodeMethodNotFound, "1"},
			{"ping", request(v, 1, "ping", "{}"), nil, 404, mcp.CodeMethodNotFound, "1"},
			{"setLevel", request(v, 1, "logging/setLevel", `{"level":"info"}`), nil, 404, mcp.CodeMethodNotFound, "1"},
			{"subscribe", request(v, 1, "resources/subscribe", `{"uri":"x:y"}`), nil, 404, mcp.CodeMethodNotFound, "1"},
			{"undeclared", request(v, 1, "prompts/list", `{}`), nil, 404, mcp.CodeMethodNotFound, "1"},
			{"bad JSON", `{"jsonrpc":"2.0","id":1,`, nil, 400, mcp.CodeParse, "1"},
			{"no JSON", `hello`, nil, 400, mcp.CodeParse, ""},
			{"nothing", ``, nil, 400, mcp.CodeParse, ""},
			{"a name twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, nil, 400, mcp.CodeParse, "1"}, // SECA-4
			{"no message", `{"jsonrpc":"2.0","id":1}`, nil, 400, mcp.CodeInvalidRequest, "1"},
			{"batch", "[" + echo + "]", nil, 400, mcp.CodeInvalidRequest, ""},
			{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, mcp.CodeInvalidRequest, ""},
			{"text", echo, h{"Content-Type": "text/plain"}, 415, mcp.CodeInvalidRequest, ""},
			{"a form", echo, h{"Content-Type": "application/x-www-form-urlencoded"}, 415, mcp.CodeInvalidRequest, ""},
			{"no type", echo, h{"Content-Type": "-"}, 415, mcp.CodeInvalidRequest, ""},
			{"another charset", echo, h{"Content-Type": "application/json; charset=utf-16"}, 415, mcp.CodeInvalidRequest, ""},
			{"almost JSON", echo, h{"Content-Type": "application/json-patch+json"}, 415, mcp.CodeInvalidRequest, ""},
			{"compressed", echo, h{"Content-Encoding": "gzip"}, 415, mcp.CodeInvalidRequest, ""},
			{"accepts JSON only", echo, h{"Accept": "application/json"}, 406, mcp.CodeInvalidRequest, ""},
			{"accepts events only", echo, h{"Accept": "text/event-stream"}, 406, mcp.CodeInvalidRequest, ""},
			{"accepts nothing", echo, h{"Accept": "-"}, 406, mcp.CodeInvalidRequest, ""},
			{"does not want events", echo, h{"Accept": "application/json, text/event-stream;q=0"}, 406, mcp.CodeInvalidRequest, ""},
			{"accepts all", echo, h{"Accept": "text/*;q=0.1, application/*"}, 200, 0, "1"},
			{"a session of old", echo, h{"Mcp-Session-Id": "whatever"}, 200, 0, "1"}, // SHM-10
			{"foreign origin", echo, h{"Origin": "https://evil.example"}, 403, mcp.CodeInvalidRequest, ""},
		})
		got := w.post(version("v999.0.0"), h{"Mcp-Protocol-Version": "v999.0.0"})
		if !strings.Contains(got.body, `"requested":"v999.0.0"`) || !strings.Contains(got.body, `"2026-07-28"`) {
			t.Errorf("the error of an unknown version: got %s", got.body)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} { // SHM-01, ERA-15
			got, err := w.send(t.Context(), method, nil, h{"Accept": "text/event-stream", "Mcp-Protocol-Version": string(v)})
			if err != nil || got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "POST" {
				t.Errorf("%s: got %v, Allow %q, %v", method, got, got.header.Get("Allow"), err)
			}
		}
		for _, method := range []string{http.MethodPut, http.MethodOptions, http.MethodHead, http.MethodPatch} {
			got, err := w.send(t.Context(), method, nil, nil)
			if err != nil || got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "GET, POST, DELETE" {
				t.Errorf("%s: got %v, Allow %q, %v", method, got, got.header.Get("Allow"), err)
			}
		}
	})
}

// SHM-01, SHM-17, ERA-14, ERA-15, MOD-10
func TestWebModernOnly(t *testing.T) {
	opts := &mcpserver.Options{Versions: []mcp.Version{mcp.V2026_07_28}}
	webBubble(t, opts, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		w := newWeb(t, client, mcp.V2026_07_28)
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			got, err := w.send(t.Context(), method, nil, h{"Accept": "text/event-stream", "Mcp-Session-Id": "x"})
			if err != nil || got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "POST" {
				t.Errorf("%s: got %v, Allow %q, %v", method, got, got.header.Get("Allow"), err)
			}
		}
		got := w.post(initialize(mcp.V2025_06_18), h{"Mcp-Protocol-Version": "-", "Mcp-Method": "-"})
		if got.status != http.StatusBadRequest || got.code() != mcp.CodeUnsupportedVersion || !strings.Contains(got.body, "2026-07-28") {
			t.Errorf("initialize: got %v, want -32022 that names what we speak", got)
		}
		w.expectStatus(t, []statusTest{
			{"no version at all", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, h{"Mcp-Protocol-Version": "-"}, 400, mcp.CodeInvalidParams, "1"},
			{"no version header", request(mcp.V2026_07_28, 1, "tools/list", "{}"), h{"Mcp-Protocol-Version": "-"}, 400, mcp.CodeHeaderMismatch, "1"},
			{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, h{"Mcp-Protocol-Version": "-"}, 400, mcp.CodeInvalidRequest, ""},
		})
	})
}

// SHL-11, SHL-16, SHL-17, SHL-18, SHL-51, SHL-52, SHL-61, SHL-62, SHL-63, ERA-12
func TestWebLegacyStatus(t *testing.T) {
	eachWebVersion(t, nil, func(t *testing.T, w *web, _ *gate) {
		v := w.version
		if v.Era() == mcp.EraModern {
			return
		}
		echo := call(v, 1, "echo", `{"text":"x"}`)
		note := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		other := mcp.V2025_03_26
		if v == other {
			other = mcp.V2025_06_18
		}
		w.expectStatus(t, []statusTest{
			{"call", echo, nil, 200, 0, "1"},
			{"no version header", echo, h{"Mcp-Protocol-Version": "-"}, 200, 0, "1"},
			{"the version", echo, h{"Mcp-Protocol-Version": string(v)}, 200, 0, "1"},
			{"another version", echo, h{"Mcp-Protocol-Version": string(other)}, 400, mcp.CodeInvalidRequest, "1"},
			{"no version of anything", echo, h{"Mcp-Protocol-Version": "1"}, 400, mcp.CodeInvalidRequest, "1"},
			{"another version on a notification", note, h{"Mcp-Protocol-Version": string(other)}, 400, mcp.CodeInvalidRequest, ""},
			{"no session", echo, h{"Mcp-Session-Id": "-"}, 400, mcp.CodeInvalidRequest, "1"},
			{"empty session", echo, h{"Mcp-Session-Id": ""}, 400, mcp.CodeInvalidRequest, "1"},
			{"unknown session", echo, h{"Mcp-Session-Id": "AAAAAAAAAAAAAAAAAAAAAAAAAA"}, 404, mcp.CodeInvalidRequest, "1"},
			{"unknown session, notification", note, h{"Mcp-Session-Id": "AAAA"}, 404, mcp.CodeInvalidRequest, ""},
			{"no session, notification", note, h{"Mcp-Session-Id": "-"}, 400, mcp.CodeInvalidRequest, ""},
			{"initialize in an unknown session", initialize(v), h{"Mcp-Session-Id": "AAAA"}, 404, mcp.CodeInvalidRequest, `"init"`},
			{"initialize again", initialize(v), nil, 200, mcp.CodeInvalidRequest, `"init"`}, // LIFE-10
			{"initialize in a version of the future", initialize(v), h{"Mcp-Session-Id": "-", "Mcp-Protocol-Version": "x"}, 400, mcp.CodeUnsupportedVersion, `"init"`},
			{"unknown method", request(v, 1, "unknown/method", "{}"), nil, 200, mcp.CodeMethodNotFound, "1"},
			{"unknown tool", call(v, 1, "nope", "{}"), nil, 200, mcp.CodeInvalidParams, "1"},
			{"a probe", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, h{"Mcp-Session-Id": "-", "Mcp-Protocol-Version": "-"}, 400, mcp.CodeInvalidParams, "1"},
			{"notification", `{"jsonrpc":"2.0","method":"notifications/unknown"}`, nil, 202, 0, ""},
			{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 202, 0, ""}, // SECA-13: to nothing that we asked
			{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, nil, 202, 0, ""},
			{"bad JSON", `{"jsonrpc":"2.0","id":1,`, nil, 400, mcp.CodeParse, "1"},
			{"no message", `{}`, nil, 400, mcp.CodeInvalidRequest, ""},
			{"text", echo, h{"Content-Type": "text/plain"}, 415, mcp.CodeInvalidRequest, ""},
			{"accepts JSON only", echo, h{"Accept": "application/json"}, 406, mcp.CodeInvalidRequest, ""},
			{"compressed", echo, h{"Content-Encoding": "gzip"}, 415, mcp.CodeInvalidRequest, ""},
			{"foreign origin", echo, h{"Origin": "https://evil.example"}, 403, mcp.CodeInvalidRequest, ""},
		})
		if v == mcp.V2025_03_26 {
			return
		}
		if got := w.post("[" + echo + "]"); got.status != http.StatusBadRequest || got.code() != mcp.CodeInvalidRequest { // BASE-23
			t.Errorf("a batch: got %v", got)
		}
	})
}

// BASE-20, BASE-21, BASE-22, SHL-11, SHL-12, WIRE-12
func TestWebBatch(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		const v = mcp.V2025_03_26
		w := newWeb(t, client, v)
		w.open()
		note := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}`
		got := w.post("[" + call(v, 1, "echo", `{"text":"one"}`) + "," + note + "," + call(v, 2, "fail", `{}`) + `,{"id":3}]`)
		if got.status != http.StatusOK || !strings.HasPrefix(got.body, "[") || !strings.Contains(got.body, `"id":1`) || !strings.Contains(got.body, `"id":2`) || !strings.Contains(got.body, `"id":3`) {
			t.Errorf("got %v, want an array of three", got)
		}
		if got := w.post("[" + note + "," + note + "]"); got.status != http.StatusAccepted || got.body != "" {
			t.Errorf("only notifications: got %v, want 202", got)
		}
		got = w.post("[" + request(v, 4, "tools/call", `{"name":"steps","arguments":{"text":"on","n":1},"_meta":{"progressToken":1}}`) + "]")
		if n := len(got.messages); n != 2 || !strings.HasPrefix(got.messages[1], "[{") {
			t.Errorf("with progress: got %q, want a notification and an array", got.messages)
		}
		for name, frame := range map[string]string{"empty": "[]", "of what is no JSON": "[1,", "too long": "[" + strings.Repeat(note+",", 100) + note + "]"} {
			if got := w.post(frame); got.status != http.StatusBadRequest || got.code() == 0 {
				t.Errorf("a batch %s: got %v, want 400", name, got)
			}
		}
		if got := w.post("["+initialize(v)+"]", h{"Mcp-Session-Id": "-"}); got.status != http.StatusBadRequest {
			t.Errorf("initialize in a batch: got %v, want 400", got)
		}
		if got := w.post("[" + initialize(v) + "]"); !strings.Contains(got.body, `"code":-32600`) {
			t.Errorf("initialize in a batch: got %v, want -32600", got)
		}
		if got := w.post("["+note+"]", h{"Mcp-Protocol-Version": "2026-07-28"}); got.status != http.StatusBadRequest {
			t.Errorf("a modern batch: got %v, want 400", got)
		}
	})
}

// SHL-50, SHL-52, SHL-53, ROB-7, P13
func TestWebSession(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, g *gate) {
		const v = mcp.V2025_11_25
		seen := map[string]bool{}
		for range 20 {
			w := newWeb(t, client, v)
			w.open()
			if len(w.session) < 22 || seen[w.session] || strings.ContainsFunc(w.session, func(r rune) bool { return r < '!' || r > '~' }) {
				t.Errorf("got the session id %q", w.session)
			}
			seen[w.session] = true
		}
		w := newWeb(t, client, v)
		w.open()
		waits := make(chan reply, 1)
		go func() { waits <- w.post(call(v, 1, "block", `{}`)) }()
		<-g.begun
		if got := w.delete(); got.status != http.StatusNoContent || got.body != "" {
			t.Errorf("DELETE: got %v", got)
		}
		begin := time.Now()
		if got := <-waits; got.code() != mcp.CodeInternal || time.Since(begin) > time.Second {
			t.Errorf("the call of a deleted session: got %v after %v", got, time.Since(begin))
		}
		<-g.ended
		for _, got := range []reply{w.delete(), w.post(call(v, 2, "echo", `{"text":"x"}`))} {
			if got.status != http.StatusNotFound {
				t.Errorf("after DELETE: got %v, want 404", got)
			}
		}
		w.session = ""
		w.open() // starts over
		if got := w.delete(h{"Mcp-Session-Id": "-"}); got.status != http.StatusBadRequest {
			t.Errorf("DELETE of no session: got %v, want 400", got)
		}
		if got := w.delete(h{"Mcp-Protocol-Version": "2025-06-18"}); got.status != http.StatusBadRequest { // SHL-63
			t.Errorf("DELETE in another version: got %v, want 400", got)
		}
	})
}

// SHL-52: an idle session ends, one that is used does not.
func TestWebSessionTTL(t *testing.T) {
	webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{SessionTTL: 8 * time.Minute}}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, g *gate) {
		const v = mcp.V2025_11_25
		used, idle, busy := newWeb(t, client, v), newWeb(t, client, v), newWeb(t, client, v)
		for _, w := range []*web{used, idle, busy} {
			w.open()
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls sync.WaitGroup
		calls.Go(func() {
			frame := call(v, 1, "block", `{}`)
			_, _ = busy.send(ctx, http.MethodPost, strings.NewReader(frame), busy.headers(frame))
		})
		<-g.begun
		for range 9 {
			time.Sleep(time.Minute)
			if got := used.post(call(v, 1, "echo", `{"text":"x"}`)); got.status != http.StatusOK {
				t.Fatalf("a session in use: got %v", got)
			}
		}
		time.Sleep(time.Second) // the ninth tick falls on the end of the ninth minute
		if got := idle.post(call(v, 1, "echo", `{"text":"x"}`)); got.status != http.StatusNotFound {
			t.Errorf("an idle session: got %v, want 404", got)
		}
		if got := busy.post(call(v, 2, "echo", `{"text":"x"}`)); got.status != http.StatusOK {
			t.Errorf("a session with a call in flight: got %v", got)
		}
		cancel()
		calls.Wait()
	})
}

// SECA-9: a flood of sessions drives out nobody who is at work.
func TestWebTooManySessions(t *testing.T) {
	webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{MaxSessions: 3}}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		const v = mcp.V2025_11_25
		w := newWeb(t, client, v)
		w.open()
		flood := newWeb(t, client, v)
		for range 50 {
			if got := flood.post(initialize(v)); got.status != http.StatusOK {
				t.Fatalf("got %v", got)
			}
		}
		if got := w.post(call(v, 1, "echo", `{"text":"x"}`)); got.status != http.StatusOK {
			t.Errorf("a session in use: got %v", got)
		}
		for range 2 {
			newWeb(t, client, v).open()
		}
		if got := flood.post(initialize(v)); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("one more than all that are in use: got %v, want 503", got)
		}
	})
}

// principals knows tokens, and has a word for those that may not come in.
func principals(r *http.Request) (*mcpserver.Principal, error) {
	switch token := r.Header.Get("Authorization"); token {
	case "Bearer alice", "Bearer bob":
		return &mcpserver.Principal{ID: strings.TrimPrefix(token, "Bearer ")}, nil
	case "Bearer narrow":
		return nil, &mcpserver.AuthError{Status: http.StatusForbidden, Challenge: `Bearer error="insufficient_scope", scope="all"`, Err: errors.New("canary")}
	case "":
		return nil, fmt.Errorf("checking: %w", &mcpserver.AuthError{Challenge: `Bearer resource_metadata="https://x.example"`})
	case "Bearer nobody":
		return nil, nil
	}
	return nil, errors.New("canary")
}

// SHL-03, SHL-54, SHM-12: 401 and 403 on every route, before anything is read.
func TestWebAuthenticate(t *testing.T) {
	webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: principals}}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
			w := newWeb(t, client, v)
			w.header["Authorization"] = "Bearer alice"
			w.open()
			tests := []struct {
				token, challenge string
				status           int
			}{
				{"", `Bearer resource_metadata="https://x.example"`, http.StatusUnauthorized},
				{"Bearer stolen", "Bearer", http.StatusUnauthorized},
				{"Bearer narrow", `Bearer error="insufficient_scope", scope="all"`, http.StatusForbidden},
			}
			for _, tt := range tests {
				token := h{"Authorization": tt.token}
				get, err := w.send(t.Context(), http.MethodGet, nil, w.headers(""), token, h{"Accept": "text/event-stream"})
				if err != nil {
					t.Fatal(err)
				}
				all := []reply{w.post(call(v, 1, "echo", `{"text":"x"}`), token), w.post("no JSON", token), w.delete(token), get}
				if v.Era() == mcp.EraModern {
					all = all[:2] // it has no other routes
				}
				for i, got := range all {
					if got.status != tt.status || got.header.Get("WWW-Authenticate") != tt.challenge || strings.Contains(got.body, "canary") {
						t.Errorf("%s, %q, route %d: got %v, challenge %q", v, tt.token, i, got, got.header.Get("WWW-Authenticate"))
					}
				}
			}
			if got := w.post(call(v, 1, "echo", `{"text":"x"}`)); got.status != http.StatusOK {
				t.Errorf("%s: with a good token: got %v", v, got)
			}
		}
	})
}

// SECA-7, SHL-54: a session is of no use to anybody else, nor can it be ended.
func TestWebSessionOfAnother(t *testing.T) {
	webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: principals}}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		const v = mcp.V2025_11_25
		w := newWeb(t, client, v)
		w.header["Authorization"] = "Bearer alice"
		w.open()
		for _, token := range []string{"Bearer bob", "Bearer nobody"} {
			other := h{"Authorization": token}
			get, err := w.send(t.Context(), http.MethodGet, nil, w.headers(""), other, h{"Accept": "text/event-stream", "Last-Event-Id": "1"})
			if err != nil {
				t.Fatal(err)
			}
			all := []reply{
				w.post(call(v, 1, "echo", `{"text":"x"}`), other), w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, other),
				w.post(`{"jsonrpc":"2.0","id":1,"result":{}}`, other), w.delete(other), get,
			}
			for i, got := range all {
				if got.status != http.StatusNotFound {
					t.Errorf("%s, route %d: got %v, want 404", token, i, got)
				}
			}
		}
		if got := w.post(call(v, 1, "echo", `{"text":"x"}`)); got.status != http.StatusOK {
			t.Errorf("alice: got %v", got)
		}
	})
}

// SECA-1, SECA-2: every method, in each era.
func TestWebOrigin(t *testing.T) {
	webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{AllowedHosts: []string{"mcp.example.com"}, AllowedOrigins: []string{"https://app.example.com"}}},
		func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
			for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
				w := newWeb(t, client, v)
				w.open()
				for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions} {
					for _, from := range []h{
						{"Host": "evil.example"}, {"Host": "evil.example", "Origin": "http://evil.example"}, {"Host": "localhost.evil.example"},
						{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"},
					} {
						got, err := w.send(t.Context(), method, nil, w.headers(call(v, 1, "echo", `{"text":"x"}`)), from)
						if err != nil || got.status != http.StatusForbidden || got.header.Get("Access-Control-Allow-Origin") != "" {
							t.Errorf("%s from %v: got %v, %v, want 403", method, from, got, err)
						}
					}
				}
				for _, from := range []h{{"Host": "mcp.example.com"}, {"Host": "127.0.0.1:8080", "Origin": "http://127.0.0.1:8080"}, {"Host": "mcp.example.com", "Origin": "https://app.example.com", "Sec-Fetch-Site": "cross-site"}} {
					if got := w.post(call(v, 1, "echo", `{"text":"x"}`), from); got.status != http.StatusOK {
						t.Errorf("from %v: got %v, want 200", from, got)
					}
				}
			}
		})
	if _, err := mcpserver.New(mcp.Implementation{Name: "x"}, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{AllowedOrigins: []string{"*"}}}); err == nil {
		t.Error("New with every origin: got no error")
	}
}

// SECA-5, HDR-05, HDR-24: what disagrees is never executed.
func TestWebMirroredArguments(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		type regional struct {
			Region *string `json:"region,omitempty"`
			Level  float64 `json:"level,omitempty"`
		}
		ran := 0
		tool := &mcp.Tool{Name: "regional", InputSchema: []byte(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer","x-mcp-header":"Level"}}}`)}
		if err := mcpserver.AddFunc(s, tool, func(_ context.Context, in regional) (string, error) { ran++; return "ran", nil }); err != nil {
			t.Fatal(err)
		}
		const v = mcp.V2026_07_28
		w := newWeb(t, client, v)
		tests := []struct {
			args   string
			header h
			ok     bool
		}{
			{`{}`, nil, true},
			{`{"region":"eu"}`, h{"Mcp-Param-Region": "eu"}, true},
			{`{"region":"eu"}`, h{"mcp-param-region": " eu "}, true},
			{`{"region":"Hello"}`, h{"Mcp-Param-Region": "=?base64?SGVsbG8=?="}, true},
			{`{"level":42.0}`, h{"Mcp-Param-Level": "42"}, true},
			{`{"level":42}`, h{"Mcp-Param-Level": "42.0"}, true},
			{`{"level":42}`, h{"Mcp-Param-Level": "4.2e1"}, true},
			{`{"level":42}`, h{"Mcp-Param-Level": "43"}, false},
			{`{"region":"42"}`, h{"Mcp-Param-Region": "42.0"}, false},
			{`{"region":"eu"}`, nil, false},
			{`{"region":"eu"}`, h{"Mcp-Param-Region": "us"}, false},
			{`{"region":"Hello"}`, h{"Mcp-Param-Region": "=?base64?SGVsbG8?="}, false},
			{`{"region":"Hello"}`, h{"Mcp-Param-Region": "=?base64?SGVs!!!bG8=?="}, false},
			{`{}`, h{"Mcp-Param-Region": "us"}, false},
			{`{"region":"eu"}`, h{"Mcp-Param-Region": "eu", "Mcp-Param-Level": "1"}, false},
		}
		for _, tt := range tests {
			before := ran
			got := w.post(call(v, 1, "regional", tt.args), tt.header)
			want := statusTest{status: http.StatusBadRequest, code: mcp.CodeHeaderMismatch}
			if tt.ok {
				want = statusTest{status: http.StatusOK}
			}
			if got.status != want.status || got.code() != want.code || (ran > before) != tt.ok {
				t.Errorf("%s with %v: got %v, ran %v, want ok %v", tt.args, tt.header, got, ran > before, tt.ok)
			}
		}
		old := newWeb(t, client, mcp.V2025_11_25)
		old.open()
		if got := old.post(call(old.version, 1, "regional", `{"region":"eu"}`)); got.status != http.StatusOK || got.code() != 0 {
			t.Errorf("a legacy call: got %v", got)
		}
		bad := &mcp.Tool{Name: "bad", InputSchema: []byte(`{"type":"object","properties":{"region":{"type":"number","x-mcp-header":"Region"}}}`)}
		if err := mcpserver.AddFunc(s, bad, func(context.Context, struct{}) (string, error) { return "", nil }); err == nil || !strings.Contains(err.Error(), "x-mcp-header") { // HDR-21, HDR-22
			t.Errorf("a tool that clients leave out: got %v", err)
		}
	})
}

// SECA-9, ROB-3, WIRE-04: what is too long is refused, whatever it says of itself.
func TestWebLongBody(t *testing.T) {
	webBubble(t, &mcpserver.Options{Limits: mcpserver.Limits{MaxMessage: 10_000}}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		const v = mcp.V2026_07_28
		w := newWeb(t, client, v)
		long := call(v, 1, "echo", `{"text":"`+strings.Repeat("x", 20_000)+`"}`)
		if got := w.post(long); got.status != http.StatusRequestEntityTooLarge {
			t.Errorf("with a length: got %v, want 413", got)
		}
		got, err := w.send(t.Context(), http.MethodPost, io.MultiReader(strings.NewReader(long)), w.headers(long))
		if err != nil || got.status != http.StatusRequestEntityTooLarge {
			t.Errorf("without a length: got %v, %v, want 413", got, err)
		}
		w.expectStatus(t, nil)
	})
}

// ROB-8: a body has 30 s.
func TestWebSlowBody(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		const v = mcp.V2026_07_28
		w := newWeb(t, client, v)
		frame := call(v, 1, "echo", `{"text":"x"}`)
		body, feed := io.Pipe()
		defer feed.Close()
		begin := time.Now()
		type answered struct {
			got reply
			err error
		}
		done := make(chan answered, 1)
		go func() {
			got, err := w.send(t.Context(), http.MethodPost, body, w.headers(frame))
			done <- answered{got, err}
		}()
		if _, err := io.WriteString(feed, frame[:20]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		if got := w.post(frame); got.status != http.StatusOK {
			t.Errorf("meanwhile: got %v", got)
		}
		a := <-done
		if took := time.Since(begin); a.err != nil || a.got.status != http.StatusRequestTimeout || took != 30*time.Second {
			t.Errorf("got %v, %v after %v, want 408 after 30 s", a.got, a.err, took)
		}
		time.Sleep(time.Minute)
		w.expectStatus(t, nil) // no deadline is left on other connections
	})
}

// SHM-09, CANC-09: closing the answer cancels the request, wherever it is carried out.
func TestWebModernDisconnect(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, g *gate) {
		if err := mcpserver.AddFunc(s, &mcp.Tool{Name: "here"}, func(ctx context.Context, _ struct{}) (string, error) {
			note(g.begun, ctx)
			<-ctx.Done()
			note(g.ended, context.Cause(ctx))
			return "", context.Cause(ctx)
		}); err != nil {
			t.Fatal(err)
		}
		const v = mcp.V2026_07_28
		for _, tool := range []string{"block", "here"} {
			w := newWeb(t, client, v)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			frame := call(v, 1, tool, `{}`)
			go func() {
				_, err := w.send(ctx, http.MethodPost, strings.NewReader(frame), w.headers(frame))
				done <- err
			}()
			<-g.begun
			cancel()
			if err := <-g.ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the context ended with %v", tool, err)
			}
			<-done
		}
	})
}

// SHL-15, CANC-11: a legacy client that goes away has not cancelled anything.
func TestWebLegacyDisconnect(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, g *gate) {
		const v = mcp.V2025_06_18
		w := newWeb(t, client, v)
		w.open()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		frame := call(v, 1, "block", `{}`)
		go func() {
			_, err := w.send(ctx, http.MethodPost, strings.NewReader(frame), w.headers(frame))
			done <- err
		}()
		handler := <-g.begun
		cancel()
		<-done
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := handler.Err(); err != nil {
			t.Errorf("the handler's context ended: %v", err)
		}
		// CANC-03, CANC-07: that is for the notification.
		if got := w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); got.status != http.StatusAccepted {
			t.Errorf("cancelled: got %v", got)
		}
		if err := <-g.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's context ended: %v", err)
		}
	})
}

// CANC-03: a cancelled request is not answered; its POST ends.
func TestWebCancelled(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, g *gate) {
		const v = mcp.V2025_11_25
		w := newWeb(t, client, v)
		w.open()
		done := make(chan reply, 1)
		go func() { done <- w.post(call(v, 1, "block", `{}`)) }()
		<-g.begun
		w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if got := <-done; got.status != http.StatusOK || len(got.messages) != 0 {
			t.Errorf("got %v, want a stream without a message", got)
		}
		// SHM-16: a modern one cancels nobody.
		go func() { done <- w.post(call(v, 2, "block", `{}`)) }()
		handler := <-g.begun
		modern := newWeb(t, client, mcp.V2026_07_28)
		if got := modern.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`); got.status != http.StatusAccepted {
			t.Errorf("a modern cancel: got %v", got)
		}
		synctest.Wait()
		if handler.Err() != nil {
			t.Error("a modern notification has cancelled the call of a session")
		}
		w.delete()
		<-done
	})
}

// TIME-04: a handler that hangs on the goroutine of net/http does not keep its client
// waiting.
func TestWebDeadline(t *testing.T) {
	eachWebVersion(t, &mcpserver.Options{Limits: mcpserver.Limits{CallTimeout: time.Minute}}, func(t *testing.T, w *web, g *gate) {
		begin := time.Now()
		got := w.post(call(w.version, 1, "hang", `{}`))
		if got.code() != mcp.CodeInternal || got.id() != "1" || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %v, want an error after a minute", got, time.Since(begin))
		}
		close(g.open)
	})
}

// SECA-6: nobody gets anything of anybody else, though all use the same ids.
func TestWebManyClients(t *testing.T) {
	s, _ := newServer(t, nil)
	client := serveReal(t, s)
	var clients sync.WaitGroup
	for i := range 50 {
		clients.Go(func() {
			w := newWeb(t, client.Client(), mcp.Versions()[i%4])
			w.url = client.URL + "/mcp"
			w.checks.check = nil // elsewhere: it would take seconds
			w.open()
			mine := fmt.Sprintf("marker-%d.", i)
			for id := range fewer(10) {
				got := w.post(request(w.version, id, "tools/call", fmt.Sprintf(`{"name":"steps","arguments":{"text":%q,"n":3},"_meta":{"progressToken":%d}}`, mine, id)))
				if w.version.Has(mcp.FeatureProgressMessage) && strings.Count(got.body, "marker-") != strings.Count(got.body, mine) || !strings.Contains(got.body, `"progressToken":`+fmt.Sprint(id)) {
					t.Errorf("client %d: got %v", i, got)
				}
				got = w.post(call(w.version, id, "echo", fmt.Sprintf(`{"text":%q}`, mine)))
				if strings.Count(got.body, "marker-") != strings.Count(got.body, mine) || !strings.Contains(got.body, mine) || got.id() != fmt.Sprint(id) {
					t.Errorf("client %d: got %v", i, got)
				}
			}
		})
	}
	clients.Wait()
}

// Calls in flight are answered before the server closes, new ones are refused.
func TestWebShutdown(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, g *gate) {
		if err := mcpserver.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcpserver.ToolRequest, _ struct{}) (string, error) {
			note(g.begun, ctx)
			<-g.open
			return "waited", nil
		}); err != nil {
			t.Fatal(err)
		}
		replies := make(chan reply, 2)
		for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
			w := newWeb(t, client, v)
			w.open()
			go func() { replies <- w.post(call(v, 1, "wait", `{}`)) }()
			<-g.begun
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		w := newWeb(t, client, mcp.V2026_07_28)
		if got := w.post(call(w.version, 1, "echo", `{"text":"x"}`)); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("a new call: got %v, want 503", got)
		}
		close(g.open)
		for range 2 {
			if got := <-replies; got.status != http.StatusOK || !strings.Contains(got.body, "waited") {
				t.Errorf("a call in flight: got %v", got)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// TOOL-15: too many requests are told to wait.
func TestWebRateLimit(t *testing.T) {
	eachWebVersion(t, &mcpserver.Options{Limits: mcpserver.Limits{RatePerSecond: 1, RateBurst: 3}}, func(t *testing.T, w *web, _ *gate) {
		got := reply{}
		for range 4 {
			got = w.post(call(w.version, 1, "echo", `{"text":"x"}`))
		}
		if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" || got.code() != mcpserver.CodeRateLimited {
			t.Errorf("got %v, Retry-After %q, want 429 and 1", got, got.header.Get("Retry-After"))
		}
		time.Sleep(time.Second)
		if got := w.post(call(w.version, 1, "echo", `{"text":"x"}`)); got.status != http.StatusOK {
			t.Errorf("a second later: got %v", got)
		}
	})
}

// ROB-7: those who wait when the server closes are answered, also on streams.
func TestWebCloseAnswers(t *testing.T) {
	for range 20 { // it would be a race
		webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, g *gate) {
			if err := mcpserver.AddTool(s, &mcp.Tool{Name: "stream"}, func(ctx context.Context, q *mcpserver.ToolRequest, _ struct{}) (string, error) {
				q.Log(mcp.LogError, "", "x")
				note(g.begun, ctx)
				<-ctx.Done()
				return "", ctx.Err()
			}); err != nil {
				t.Fatal(err)
			}
			replies := make(chan reply, 2)
			for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2025_03_26} {
				w := newWeb(t, client, v)
				w.open()
				go func() { replies <- w.post(call(v, 1, "stream", `{}`)) }()
				<-g.begun
			}
			synctest.Wait()
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			for range 2 {
				if got := <-replies; got.code() != mcp.CodeInternal {
					t.Errorf("got %v, want an error at the end", got)
				}
			}
		})
	}
}

// BASE-09, BASE-15: what is wrong with an answer is told without its id, which could be
// that of a request of the client's own.
func TestWebMalformedAnswer(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		w := newWeb(t, client, mcp.V2025_11_25)
		w.open()
		for _, frame := range []string{`{"jsonrpc":"2.0","id":7,"result":[]}`, `{"jsonrpc":"2.0","id":7,"error":[]}`} {
			if got := w.post(frame); got.status != http.StatusBadRequest || got.code() != mcp.CodeInvalidRequest || got.id() != "" {
				t.Errorf("%s: got %v, want 400 without an id", frame, got)
			}
		}
	})
}

// SHM-03, HDR-05, BASE-23: a request of 2026-07-28 does not get in by the batch of another
// revision, where it would have no headers.
func TestWebModernInBatch(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		w := newWeb(t, client, mcp.V2025_03_26)
		w.open()
		got := w.post("[" + call(mcp.V2026_07_28, 1, "echo", `{"text":"x"}`) + "]")
		if want := `"error":{"code":-32600`; !strings.Contains(got.body, `"id":1`) || !strings.Contains(got.body, want) {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

// MOD-06: should the actor fail that the requests of 2026-07-28 share, they get another.
func TestWebSharedSessionFails(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		w := newWeb(t, client, mcp.V2026_07_28)
		for range 3 {
			if got := w.post(call(w.version, 1, "echo", `{"text":"x"}`)); got.status != http.StatusOK || got.code() != 0 {
				t.Fatalf("got %v", got)
			}
			mcpserver.StopShared(s)
			synctest.Wait()
		}
	})
}
