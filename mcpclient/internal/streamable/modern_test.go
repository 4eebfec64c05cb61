package streamable_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// SHM-01, SHM-04, SHM-10, HDR-01, HDR-02, HDR-03, HDR-04, HDR-11, HDR-13, HDR-14, HDR-20, HDR-23: what modern
// requests say in their headers.
func TestModernHeaders(t *testing.T) {
	tests := []struct {
		method, name string
		params       []mcp.Header
		want         map[string]string // Mcp-…
	}{
		{mcp.MethodDiscover, "", nil, map[string]string{"Mcp-Method": "server/discover"}},
		{mcp.MethodCallTool, "us-west1", nil, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "us-west1"}},
		{mcp.MethodCallTool, "us-west1", []mcp.Header{{Name: "Region", Value: " padded "}, {Name: "tEXT", Value: "line1\nline2"}, {Name: "N", Value: "42"}, {Name: "Empty", Value: ""}},
			map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "us-west1", "Mcp-Param-Region": "=?base64?IHBhZGRlZCA=?=", "Mcp-Param-Text": "=?base64?bGluZTEKbGluZTI=?=", "Mcp-Param-N": "42", "Mcp-Param-Empty": ""}},
		{mcp.MethodCallTool, "Hello, 世界", nil, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?SGVsbG8sIOS4lueVjA==?="}},
		{mcp.MethodGetPrompt, "=?base64?literal?=", nil, map[string]string{"Mcp-Method": "prompts/get", "Mcp-Name": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}},
		{mcp.MethodReadResource, "", nil, map[string]string{"Mcp-Method": "resources/read", "Mcp-Name": ""}},
		{mcp.MethodReadResource, "file:///a b", nil, map[string]string{"Mcp-Method": "resources/read", "Mcp-Name": "file:///a b"}},
		{"tasks/get", "t-1", nil, map[string]string{"Mcp-Method": "tasks/get", "Mcp-Name": "t-1"}},
		{mcp.MethodListTools, "", nil, map[string]string{"Mcp-Method": "tools/list"}},
		{mcp.MethodCallTool, "us-west1", nil, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "us-west1"}}, // nothing is left of the others
	}
	bubble(t, func(w http.ResponseWriter, r *request) {
		w.Header().Set("Mcp-Session-Id", "nobody-wants-this")
		w.Header().Set("Set-Cookie", "a=b")
		writeJSON(w, 200, result(r.ID))
	}, func(k *kit) {
		k.Speak(mcp.V2026_07_28)
		for i, tt := range tests {
			id := mcp.IntID(int64(i))
			k.send(mcp.Outgoing{Frame: mcp.AppendRequest(nil, id, tt.method, nil), Kind: mcp.KindRequest, ID: id, Method: tt.method, Name: tt.name, Headers: tt.params})
		}
		k.ListenGET() // there is none
		if err := k.Send(mcp.Outgoing{Frame: []byte("{}"), Kind: mcp.KindResult, ID: mcp.IntID(1)}); err == nil {
			t.Error("a response was sent") // MOD-07, SHM-03
		}
		k.notify("notifications/x")
		k.Close()
		got := k.server.requests("")
		if len(got) != len(tests)+1 {
			t.Fatalf("%d requests, want %d", len(got), len(tests)+1)
		}
		if h := got[len(tests)].Header; h.Get("Mcp-Method") != "notifications/x" || h.Get("Mcp-Protocol-Version") != "2026-07-28" { // SHM-05
			t.Errorf("notification: %v", h)
		}
		for i, tt := range tests {
			r := got[i]
			tt.want["Content-Type"], tt.want["Accept"] = "application/json", "application/json, text/event-stream"
			tt.want["Mcp-Protocol-Version"] = "2026-07-28"
			for name, value := range tt.want {
				if vs, ok := r.Header[name]; !ok || len(vs) != 1 || vs[0] != value {
					t.Errorf("%s %q: %s is %q, want %q", tt.method, tt.name, name, vs, value)
				}
			}
			for name := range r.Header {
				if _, ok := tt.want[name]; !ok && (name[:4] == "Mcp-" || name == "Cookie") {
					t.Errorf("%s: %s is sent", tt.method, name)
				}
			}
		}
	})
}

// SHM-09, CANC-09: closing the stream is what cancels, and nothing else is sent.
func TestModernCancel(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){"stream": stream, "no answer yet": func(http.ResponseWriter) {}} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan time.Duration, 1)
			bubble(t, func(w http.ResponseWriter, r *request) {
				begin(w)
				start := time.Now()
				hang(r.Ctx)
				gone <- time.Since(start)
			}, func(k *kit) {
				k.Speak(mcp.V2026_07_28)
				k.request(7, "tools/call")
				time.Sleep(time.Second)
				k.cancel(7)
				if took := <-gone; took != time.Second {
					t.Errorf("the stream was closed after %v", took)
				}
				if n := len(k.server.requests("")); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
				if k.sink.fails > 0 {
					t.Errorf("failures: %v", k.sink.failed)
				}
			})
		})
	}
}

// ERA-08: a probe that is not answered is given up when the handshake begins.
func TestAbandonedProbe(t *testing.T) {
	gone := false
	bubble(t, func(w http.ResponseWriter, r *request) {
		if r.Message.Method == mcp.MethodDiscover {
			hang(r.Ctx)
			gone = true
			return
		}
		writeJSON(w, 200, result(r.ID))
	}, func(k *kit) {
		k.Speak(mcp.V2026_07_28)
		k.request(1, mcp.MethodDiscover)
		k.Speak("")
		k.request(2, mcp.MethodInitialize)
		if !gone {
			t.Error("the probe goes on")
		}
		if h := k.server.requests("")[1].Header; h.Get("Mcp-Protocol-Version")+h.Get("Mcp-Method") != "" {
			t.Errorf("initialize: %v", h)
		}
	})
}
