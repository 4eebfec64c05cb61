package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// answers are what a server may say to a tools/call, with %s for the request's id.
var answers = []struct {
	name, text string
	want       CallOutcome
	fails      bool // the call has no result
}{
	{"a result", `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, 0, false},
	{"an error", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, OutcomeAnswered, true},
	{"result and error", `{"jsonrpc":"2.0","id":%s,"result":{"content":[]},"error":{"code":-32000,"message":"no"}}`, OutcomeUnknown, true},
	{"a result and no error", `{"jsonrpc":"2.0","id":%s,"result":{"content":[]},"error":null}`, OutcomeUnknown, true},
	{"an error and no result", `{"jsonrpc":"2.0","id":%s,"result":null,"error":{"code":-32000,"message":"no"}}`, OutcomeUnknown, true},
	{"neither", `{"jsonrpc":"2.0","id":%s}`, OutcomeUnknown, true},
	{"an error without a code", `{"jsonrpc":"2.0","id":%s,"error":{"message":"no"}}`, OutcomeUnknown, true},
	{"an error that is a text", `{"jsonrpc":"2.0","id":%s,"error":"no"}`, OutcomeUnknown, true},
	{"another version", `{"jsonrpc":"1.0","id":%s,"error":{"code":-32000,"message":"no"}}`, OutcomeUnknown, true},
	{"another id", `{"jsonrpc":"2.0","id":4%s99,"error":{"code":-32000,"message":"no"}}`, OutcomeUnknown, true},
	{"an id that is a text", `{"jsonrpc":"2.0","id":"%s","error":{"code":-32000,"message":"no"}}`, OutcomeUnknown, true},
	{"an id that is an object", `{"jsonrpc":"2.0","id":{"n":%s},"error":{"code":-32000,"message":"no"}}`, OutcomeUnknown, true},
	{"a name twice", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"},"error":{"code":-32000,"message":"no"}}`, OutcomeUnknown, true},
	{"a batch", `[{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}]`, OutcomeUnknown, true},
	{"half a surrogate", `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"\ud83c"}]}}`, OutcomeUnknown, true},
	{"no UTF-8", `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"` + "\xe9" + `"}]}}`, OutcomeUnknown, true},
	{"cut off", `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"te`, OutcomeUnknown, true},
	{"no JSON", `<html>%s</html>`, OutcomeUnknown, true},
	{"a number", `1%s`, OutcomeUnknown, true},
	{"a result that is a list", `{"jsonrpc":"2.0","id":%s,"result":[]}`, OutcomeUnknown, true},
	{"content that is a text", `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":"done"}}`, OutcomeUnknown, true},
	{"a block without a type", `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"text":"done"}]}}`, OutcomeUnknown, true},
	{"an image that is no base64", `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"image","mimeType":"image/png","data":"!"}]}}`, OutcomeUnknown, true},
	{"a resultType that is a number", `{"jsonrpc":"2.0","id":%s,"result":{"resultType":1,"content":[]}}`, OutcomeUnknown, true},
	{"nothing", ``, OutcomeUnknown, true},
}

func fill(text string, id mcp.ID) string { return strings.ReplaceAll(text, "%s", id.String()) }

// checkOutcome calls a tool of the server, and a list of it, which stays an ordinary error.
func checkOutcome(t *testing.T, c *Client, want CallOutcome, fails bool) {
	t.Helper()
	defer c.Close()
	_, err := c.CallTool(t.Context(), "t", nil, nil)
	switch {
	case (err != nil) != fails:
		t.Errorf("CallTool: got %v, want an error: %v", err, fails)
	case err != nil && OutcomeOf(err) != want:
		t.Errorf("CallTool: got %v, which is %d, want %d", err, OutcomeOf(err), want)
	}
	if _, wire := errors.AsType[*mcp.Error](err); wire && want == OutcomeUnknown {
		t.Errorf("CallTool: got %v, which is taken for the server's word", err)
	}
	if res := UnknownResult(errors.New("x")); !SaysUnknown(res) || SaysUnknown(mcp.ErrorResult("x")) {
		t.Errorf("SaysUnknown: got %v, %v", SaysUnknown(res), SaysUnknown(mcp.ErrorResult("x")))
	}
}

// TestOutcomes: of a call that was sent, only a result and a well-formed error of JSON-RPC say what has
// become of it, on each transport. What cannot be read leaves it unknown.
func TestOutcomes(t *testing.T) {
	for _, tt := range answers {
		t.Run("pipe/"+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, _ := lineServer(t, func(m *mcp.Message) string {
					if m.Method == "" {
						return ""
					}
					return fill(tt.text, m.ID)
				})
				srv.CallTimeout = time.Minute
				c, err := Dial(t.Context(), srv, &Options{System: newSystem(t)})
				if err != nil {
					t.Fatal(err)
				}
				checkOutcome(t, c, tt.want, tt.fails)
			})
		})
		for _, stream := range []bool{false, true} {
			said := func(w http.ResponseWriter, r *posted) {
				switch text := fill(tt.text, r.ID); {
				case r.Method != mcp.MethodCallTool:
					okWeb(w, r)
				case !stream:
					say(w, 200, text)
				case text == "":
					sayStream(w)
				default:
					sayStream(w, text)
				}
			}
			checkWeb(t, fmt.Sprintf("legacy/%s/%v", tt.name, stream), legacyWeb(said), "/mcp", tt.want, tt.fails)
			checkWeb(t, fmt.Sprintf("modern/%s/%v", tt.name, stream), modernWeb(said), "/mcp", tt.want, tt.fails)
		}
		checkWeb(t, "sse/"+tt.name, func(w http.ResponseWriter, r *posted) { sseAnswers(w, r, tt.text, 202) }, "/sse", tt.want, tt.fails)
	}
}

// sseAnswers is a server of HTTP+SSE that answers a tools/call with text, and its POST with a status.
func sseAnswers(w http.ResponseWriter, r *posted, text string, status int) {
	events, _ := r.Ctx.Value(sseEvents{}).(chan string)
	switch {
	case r.HTTP == "POST" && r.Path == "/sse":
		w.WriteHeader(405)
	case r.HTTP == "POST" && r.Method == mcp.MethodCallTool:
		if text != "" {
			events <- fill(text, r.ID)
		}
		w.WriteHeader(status)
	case r.HTTP == "POST":
		if r.Kind == mcp.KindRequest {
			events <- handshakeOf(r.ID)
		}
		w.WriteHeader(202)
	default:
		oldWeb(events, 405)(w, r)
	}
}

type sseEvents struct{}

func checkWeb(t *testing.T, name string, answer func(http.ResponseWriter, *posted), path string, want CallOutcome, fails bool) {
	t.Run(name, func(t *testing.T) {
		var events chan string
		webBubble(t, func(w http.ResponseWriter, r *posted) {
			r.Ctx = context.WithValue(r.Ctx, sseEvents{}, events)
			answer(w, r)
		}, func(t *testing.T, _ *webServer, opts *Options) {
			events = make(chan string, 8)
			srv := webAt(path)
			srv.CallTimeout = time.Minute
			if path == "/sse" {
				srv.Transport = TransportSSE
			}
			c, err := Dial(t.Context(), srv, opts)
			if err != nil {
				t.Fatal(err)
			}
			checkOutcome(t, c, want, fails)
		})
	})
}

// TestOutcomesOfStatus: a status that is no success says nothing of a call that was sent, but for 401 and
// 403: those have not let it in. An error in its body is the server's word if it is about this request, or
// about none.
func TestOutcomesOfStatus(t *testing.T) {
	const wire = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`
	tests := []struct {
		name, kind, body string
		status           int
		want             CallOutcome
	}{
		{"a page", "text/html", "<html>", 200, OutcomeUnknown},
		{"no type", "", wire, 200, OutcomeUnknown},
		{"another type", "text/plain", wire, 200, OutcomeUnknown},
		{"nothing", "", "", 202, OutcomeUnknown},
		{"no content", "", "", 204, OutcomeUnknown},
		{"an error page", "text/html", "<html>", 500, OutcomeUnknown},
		{"a gateway's", "text/html", "<html>", 502, OutcomeUnknown},
		{"a gateway's time", "text/html", "<html>", 504, OutcomeUnknown},
		{"cut off", "application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-3`, 500, OutcomeUnknown},
		{"an error", "application/json", wire, 500, OutcomeAnswered},
		{"an error of no request", "application/json", strings.ReplaceAll(wire, "%s", "null"), 400, OutcomeAnswered},
		{"an error of another request", "application/json", strings.ReplaceAll(wire, "%s", `"server-error"`), 500, OutcomeUnknown},
		{"both", "application/json", `{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":-32000,"message":"no"}}`, 500, OutcomeUnknown},
		{"no access", "text/plain", "", 401, OutcomeUnsent},
		{"refused access", "text/plain", "", 403, OutcomeUnsent},
	}
	for _, tt := range tests {
		said := func(w http.ResponseWriter, r *posted) {
			if r.Method != mcp.MethodCallTool {
				okWeb(w, r)
				return
			}
			w.Header()["Content-Type"] = nil
			if tt.kind != "" {
				w.Header().Set("Content-Type", tt.kind)
			}
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, fill(tt.body, r.ID))
		}
		checkWeb(t, "legacy/"+tt.name, legacyWeb(said), "/mcp", tt.want, true)
		checkWeb(t, "modern/"+tt.name, modernWeb(said), "/mcp", tt.want, true)
		if tt.kind == "text/html" || tt.want == OutcomeUnsent {
			checkWeb(t, "sse/"+tt.name, func(w http.ResponseWriter, r *posted) { sseAnswers(w, r, "", tt.status) }, "/sse", tt.want, true)
		}
	}
}

// TestResponseErrorIsOurs: what Troupe finds wrong with an answer is never taken for the server's error.
func TestResponseErrorIsOurs(t *testing.T) {
	err := &ServerError{Server: "s", Method: mcp.MethodCallTool, Err: &call.TransportError{Method: mcp.MethodCallTool,
		Err: &call.ResponseError{Method: mcp.MethodCallTool, Err: fmt.Errorf("reading: %w", mcp.ErrParse)}}}
	if _, wire := errors.AsType[*mcp.Error](err); wire || !errors.Is(err, ErrInvalidResponse) || !strings.Contains(err.Error(), "parse error") || OutcomeOf(err) != OutcomeUnknown {
		t.Errorf("got %v, a wire error: %v, outcome %d", err, wire, OutcomeOf(err))
	}
	long := &MessageTooLongError{Certain: true}
	if err := error(&call.ResponseError{Err: long}); !errors.Is(err, ErrMessageTooLong) || OutcomeOf(err) != OutcomeAnswered {
		t.Errorf("got %v, outcome %d", err, OutcomeOf(err))
	}
}
