package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
)

// mirrorServer is a server of 2026-07-28 over HTTP that holds the headers of a call to
// its body, as it must (HDR-05, HDR-24).
type mirrorServer struct {
	rounds int      // rounds of input that a call takes
	then   []string // the tools after the first mismatch

	mu     sync.Mutex
	tools  []string // their definitions
	calls  []http.Header
	lists  int
	last   []string // the bodies of the calls
	silent bool     // lists are not answered any more
}

func (s *mirrorServer) define(tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
}

// seen are the headers of the calls, as they say what is repeated.
func (s *mirrorServer) seen() (calls []map[string]string, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.calls {
		params := map[string]string{}
		for name, values := range h {
			if rest, ok := strings.CutPrefix(name, "Mcp-Param-"); ok {
				params[rest] = values[0]
			}
		}
		calls = append(calls, params)
	}
	return calls, s.lists
}

func (s *mirrorServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m := new(mcp.Message)
	if err := mcp.Scan(body, m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, status := "", http.StatusOK
	switch m.Method {
	case mcp.MethodDiscover:
		answer = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`
	case mcp.MethodListTools:
		s.lists++
		if s.silent {
			s.mu.Unlock()
			<-r.Context().Done()
			s.mu.Lock()
			return
		}
		answer = `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[` + strings.Join(s.tools, ",") + `]}`
	case mcp.MethodCallTool:
		s.calls = append(s.calls, r.Header)
		s.last = append(s.last, string(body))
		answer, status = s.call(m, r.Header)
		if status == http.StatusBadRequest && s.then != nil {
			s.tools = s.then
		}
	default:
		answer, status = `"error":{"code":-32601,"message":"no"}`, http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
}

// call checks the headers and answers.
func (s *mirrorServer) call(m *mcp.Message, h http.Header) (string, int) {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		State     string          `json:"requestState"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return `"error":{"code":-32602,"message":"params"}`, http.StatusBadRequest
	}
	for _, text := range s.tools {
		var tool mcp.Tool
		if err := mcp.Unmarshal([]byte(text), &tool); err != nil {
			panic(err)
		}
		params, err := mirror.Params(tool.InputSchema)
		if tool.Name != p.Name || err != nil {
			continue
		}
		want, _ := mirror.Headers(params, p.Arguments)
		got := 0
		for _, header := range want {
			value, err := mirror.Decode(h.Get("Mcp-Param-" + header.Name))
			if err != nil || value != header.Value || len(h.Values("Mcp-Param-"+header.Name)) != 1 {
				return `"error":{"code":-32020,"message":"mismatch of ` + header.Name + `"}`, http.StatusBadRequest
			}
			got++
		}
		for name := range h {
			if strings.HasPrefix(name, "Mcp-Param-") {
				got--
			}
		}
		if got != 0 {
			return `"error":{"code":-32020,"message":"too many"}`, http.StatusBadRequest
		}
	}
	if len(p.State) < s.rounds {
		return `"result":{"resultType":"input_required","requestState":"` + p.State + `x"}`, http.StatusOK
	}
	return `"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}`, http.StatusOK
}

// dial connects over HTTP in memory.
func (s *mirrorServer) dial(t *testing.T) *Client {
	t.Helper()
	c, err := Dial(t.Context(), Server{Name: "mirror", URL: "http://server.test/mcp"},
		&Options{System: newSystem(t), httpClient: memhttp.Serve(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// mirrorTool defines a tool with one annotated property, and others.
func mirrorTool(name, header string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":%q},`+
		`"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Deep-N"}}},"other":{"type":"string"}}}}`, name, header)
}

// HDR-10, HDR-11, HDR-20, HDR-23, SECA-5
func TestMirroredArguments(t *testing.T) {
	tests := []struct {
		args string
		want map[string]string
	}{
		{`{"region":"us-west1","other":"x"}`, map[string]string{"Region": "us-west1"}},
		{`{"region":"Hello, 世界","deep":{"n":42.0}}`, map[string]string{"Region": "=?base64?SGVsbG8sIOS4lueVjA==?=", "Deep-N": "42"}},
		{`{"region":null,"deep":{}}`, map[string]string{}},
		{`{"region":""}`, map[string]string{"Region": ""}}, // HDR-13
		{`{"region":"a\r\nMcp-Method: x"}`, map[string]string{"Region": "=?base64?YQ0KTWNwLU1ldGhvZDogeA==?="}},
		{``, map[string]string{}},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := new(mirrorServer)
			s.define(mirrorTool("t", "Region"))
			c := s.dial(t)
			// Nobody has asked for the list: the client reads it for the headers (HDR-23).
			res, err := c.CallTool(t.Context(), "t", json.RawMessage(tt.args), nil)
			if err != nil || soleText(res) != "done" {
				t.Fatalf("CallTool(%s): got %v, %v", tt.args, res, err)
			}
			params := `{"name":"t"}`
			if tt.args != "" {
				params = `{"name":"t","arguments":` + tt.args + `}`
			}
			if _, err := c.Request(t.Context(), mcp.MethodCallTool, json.RawMessage(params), nil); err != nil {
				t.Errorf("Request(%s): %v", params, err)
			}
			calls, lists := s.seen()
			if !reflect.DeepEqual(calls, []map[string]string{tt.want, tt.want}) || lists != 1 {
				t.Errorf("%s: got headers %v after %d lists, want %v twice after one", tt.args, calls, lists, tt.want)
			}
		})
	}
}

// What cannot be repeated is not sent at all (HDR-21).
func TestArgumentThatCannotBeMirrored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(mirrorServer)
		s.define(mirrorTool("t", "Region"))
		c := s.dial(t)
		for _, args := range []string{`{"deep":{"n":9007199254740992}}`, `{"region":["canary"]}`} {
			_, err := c.CallTool(t.Context(), "t", json.RawMessage(args), nil)
			if _, ok := errors.AsType[*mirror.ArgumentError](err); !ok {
				t.Errorf("CallTool(%s): got %v, want an ArgumentError", args, err)
			}
		}
		if calls, _ := s.seen(); len(calls) > 0 {
			t.Errorf("got %d calls, want none", len(calls))
		}
	})
}

// HDR-22: over HTTP a tool with a bad annotation is left out and never called; the
// others stay.
func TestToolWithBadAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(mirrorServer)
		s.define(mirrorTool("good", "Region"), mirrorTool("bad", "my region"), `{"name":"plain","inputSchema":{"type":"object"}}`)
		c := s.dial(t)
		tools, err := c.ListTools(t.Context())
		if got := namesOf(tools, func(t mcp.Tool) string { return t.Name }); err != nil || !slices.Equal(got, []string{"good", "plain"}) {
			t.Errorf("ListTools: got %v, %v, want good and plain", got, err)
		}
		if _, err := c.CallTool(t.Context(), "bad", nil, nil); !errors.Is(err, mirror.ErrAnnotation) {
			t.Errorf("CallTool(bad): got %v, want ErrAnnotation", err)
		}
		if calls, _ := s.seen(); len(calls) > 0 {
			t.Errorf("got %d calls, want none", len(calls))
		}
		if _, err := c.CallTool(t.Context(), "plain", nil, nil); err != nil {
			t.Errorf("CallTool(plain): %v", err)
		}
	})
}

// HDR-22: other transports do not care.
func TestBadAnnotationElsewhere(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		synctest.Test(t, func(t *testing.T) {
			w := echoTools(v)
			w.methods[mcp.MethodListTools] = func(*mcp.Message) string {
				return `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[` + mirrorTool("bad", "my region") + `]}`
			}
			c := w.dial(t, nil)
			if tools, err := c.ListTools(t.Context()); err != nil || len(tools) != 1 {
				t.Errorf("%s: ListTools: got %v, %v, want the tool", v, tools, err)
			}
			if _, err := c.CallTool(t.Context(), "bad", json.RawMessage(`{"region":"x"}`), nil); err != nil {
				t.Errorf("%s: CallTool: %v", v, err)
			}
			if o, _ := w.last(t); len(o.Headers) > 0 {
				t.Errorf("%s: got headers %v, want none", v, o.Headers)
			}
		})
	}
}

// HDR-25: a tool whose annotations have changed is listed anew, and the call repeated
// once; rounds of input before and after keep the newest headers and parameters.
func TestHeaderMismatch(t *testing.T) {
	for _, rounds := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := &mirrorServer{rounds: rounds}
			s.define(mirrorTool("t", "Region"))
			c := s.dial(t)
			if _, err := c.ListTools(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.define(mirrorTool("t", "Zone"))
			res, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"region":"x"}`), nil)
			if err != nil || soleText(res) != "done" {
				t.Errorf("CallTool: got %v, %v", res, err)
			}
			calls, lists := s.seen()
			want := []map[string]string{{"Region": "x"}}
			for range rounds + 1 {
				want = append(want, map[string]string{"Zone": "x"})
			}
			if !reflect.DeepEqual(calls, want) || lists != 2 {
				t.Errorf("%d rounds: got headers %v after %d lists, want %v after 2", rounds, calls, lists, want)
			}
			// The next call knows.
			if _, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"region":"y"}`), nil); err != nil {
				t.Errorf("CallTool again: %v", err)
			}
		})
	}
}

// HDR-25: the annotation changes while the call has rounds of input: the repeated
// attempt has what was answered before.
func TestHeaderMismatchBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &mirrorServer{rounds: 1}
		s.define(mirrorTool("t", "Region"))
		c := s.dial(t)
		if _, err := c.ListTools(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"region":"x"}`), nil)
			done <- err
		}()
		synctest.Wait() // the first round is answered, the pause before the next goes on
		s.define(`{"name":"t","inputSchema":{"type":"object"}}`)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		calls, lists := s.seen()
		want := []map[string]string{{"Region": "x"}, {"Region": "x"}, {}}
		if !reflect.DeepEqual(calls, want) || lists != 2 || !strings.Contains(s.last[2], `"requestState":"x"`) {
			t.Errorf("got headers %v after %d lists, last %s, want %v after 2, with the state", calls, lists, s.last[len(s.last)-1], want)
		}
	})
}

// HDR-25: once. A server that is never content does not make us go on.
func TestHeaderMismatchForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(mirrorServer)
		s.define(mirrorTool("t", "Region"))
		c := s.dial(t)
		if _, err := c.ListTools(t.Context()); err != nil {
			t.Fatal(err)
		}
		never := mirrorTool("t", "Zone")
		s.define(never, strings.Replace(never, "Zone", "Other", 1)) // the second is not what the client sees
		_, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"region":"x"}`), nil)
		if !errors.Is(err, mcp.ErrHeaderMismatch) {
			t.Errorf("CallTool: got %v, want a header mismatch", err)
		}
		if calls, lists := s.seen(); len(calls) != 2 || lists != 2 {
			t.Errorf("got %d calls and %d lists, want 2 and 2", len(calls), lists)
		}
	})
}

// HDR-25: a tool that is gone, or has become bad, ends the call with the reason.
func TestHeaderMismatchToolGone(t *testing.T) {
	for name, tt := range map[string]struct {
		then []string
		want error
	}{
		"bad":  {[]string{mirrorTool("t", "a b")}, mirror.ErrAnnotation},
		"gone": {[]string{}, ErrUnknownTool},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &mirrorServer{then: tt.then}
				s.define(mirrorTool("t", "Region"))
				c := s.dial(t)
				if _, err := c.ListTools(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.define(mirrorTool("t", "Zone"))
				_, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"region":"x"}`), nil)
				if !errors.Is(err, tt.want) || !errors.Is(err, mcp.ErrHeaderMismatch) {
					t.Errorf("CallTool: got %v, want a header mismatch because of %v", err, tt.want)
				}
				if calls, _ := s.seen(); len(calls) != 1 {
					t.Errorf("got %d calls, want 1", len(calls))
				}
			})
		})
	}
}

// The reading of the list for new headers ends with the call.
func TestHeaderMismatchCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(mirrorServer)
		s.define(mirrorTool("t", "Region"))
		c := s.dial(t)
		if _, err := c.ListTools(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.define(mirrorTool("t", "Zone"))
		s.mu.Lock()
		s.silent = true
		s.mu.Unlock()
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		time.AfterFunc(time.Second, func() { cancel(enough) })
		if _, err := c.CallTool(ctx, "t", json.RawMessage(`{"region":"x"}`), nil); !errors.Is(err, enough) {
			t.Errorf("CallTool: got %v, want %v", err, enough)
		}
	})
}
