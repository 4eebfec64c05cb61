package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// oddTexts are texts that a transport could trip over, as they stand in JSON.
var oddTexts = []string{
	`plain`, `ü € 😀`, `\u00fc \ud83d\ude00`, `\r\n\n\r`, `data: x\n\nevent: y\nid: 7\n:`, `\u0000\u001f\u007f`, "\u2028\u2029\u0085\u00a0",
	`<script>&amp;\u003c`, `\\\"\/`, "\ufeff", "\ufffd", `[{\"jsonrpc\":\"2.0\"}]\n`, strings.Repeat("é", 40_000),
}

// WIRE-01: whatever carries a message, it arrives as it was sent: text comes back as it
// was, and what is no UTF-8 is refused. ROB-1: on every surface alike.
func TestTransportsCarryAnything(t *testing.T) {
	const v = mcp.V2025_03_26 // the one revision that all of them have
	for _, name := range surfaceNames {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, nil)
				ask := surface(t, name, s, v)
				for i, text := range oddTexts {
					carry(t, ask, v, i, text)
				}
				for _, bad := range []string{"\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80"} {
					answers := ask(call(v, 1, "echo", `{"text":"`+bad+`"}`))
					if len(answers) != 1 || !strings.Contains(answers[0], `"error":{"code":-32700`) {
						t.Errorf("%q: got %q, want -32700", bad, answers)
					}
				}
			})
		})
	}
}

// carry sends a text as an argument and as a token, and wants it back in the answer,
// and in what comes before that.
func carry(t *testing.T, ask func(string) []string, v mcp.Version, id int, text string) {
	t.Helper()
	var want string
	if err := json.Unmarshal([]byte(`"`+text+`"`), &want); err != nil {
		t.Fatal(err)
	}
	var progress struct{ Params mcp.ProgressParams }
	var got struct {
		ID     int
		Result mcp.CallToolResult
	}
	answers := ask(request(v, id, mcp.MethodCallTool, `{"name":"steps","arguments":{"text":"`+text+`","n":1},"_meta":{"progressToken":"`+text+`"}}`))
	if len(answers) != 2 || json.Unmarshal([]byte(answers[0]), &progress) != nil {
		t.Fatalf("steps of %s: got %d messages", clip(text), len(answers))
	}
	if p := progress.Params; p.Message != want || mcp.StringID(want) != p.ProgressToken {
		t.Errorf("steps of %s: got %q, token %s", clip(text), clip(p.Message), clip(p.ProgressToken.String()))
	}
	answers = ask(call(v, id, "echo", `{"text":"`+text+`"}`))
	if len(answers) != 1 || json.Unmarshal([]byte(answers[0]), &got) != nil || got.ID != id {
		t.Fatalf("echo of %s: got %s", clip(text), clip(fmt.Sprint(answers)))
	}
	var out echoOut
	if err := json.Unmarshal([]byte(got.Result.Content.Text()), &out); err != nil || out.Text != want {
		t.Errorf("echo of %s: got %s", clip(text), clip(got.Result.Content.Text()))
	}
}

var surfaceNames = []string{"pipe", "memory", "http", "sse"}

// surface opens a client of a kind, and returns how it asks: what comes, up to the
// answer.
func surface(t *testing.T, name string, s *mcpserver.Server, v mcp.Version) func(line string) []string {
	t.Helper()
	var send func(string)
	var receive func() string
	switch name {
	case "pipe":
		p := serve(t, s)
		p.initialize(v)
		send, receive = p.send, p.receive
	case "memory":
		to := new(sink)
		link, err := s.Connect(to)
		if err != nil {
			t.Fatal(err)
		}
		var frames []string
		send = func(line string) {
			if err := link.Send(mcp.Outgoing{Frame: []byte(line)}); err != nil {
				t.Fatalf("Send: %v", err)
			}
		}
		receive = func() string {
			if frames = append(frames, to.take()...); len(frames) == 0 {
				t.Fatal("no answer")
			}
			first := frames[0]
			frames = frames[1:]
			return first
		}
		send(initialize(v))
		receive()
		send(initialized)
	case "sse":
		c := openOld(t, memhttp.Serve(t, s.SSEHandler()), nil)
		c.initialize(v)
		refusal := ""
		send = func(line string) { _, refusal = c.try(line, nil) }
		receive = func() string {
			if refusal != "" { // what is no message is refused where it is posted
				return refusal
			}
			return c.message()
		}
	default:
		w := newWeb(t, memhttp.Serve(t, s.Handler()), v)
		w.open()
		return func(line string) []string {
			got := w.post(line)
			if got.status != http.StatusOK && got.status != http.StatusBadRequest {
				t.Errorf("got %v", got)
			}
			return got.messages
		}
	}
	return func(line string) (all []string) {
		for send(line); ; {
			one := receive()
			if all = append(all, one); !strings.Contains(one, `"method"`) {
				return all
			}
		}
	}
}
