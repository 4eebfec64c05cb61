package ollama_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/talk"
	"github.com/troupe-dev/troupe/llm/ollama"
)

type jsonHandler string

func (h jsonHandler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, string(h))
}

type silentHandler struct{}

func (silentHandler) ServeHTTP(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns a client whose every request is answered with body.
func answering(body []byte) *ollama.Client {
	return ollama.New("m", &ollama.Options{Host: "llm.test", HTTPClient: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
		}),
	}})
}

// FuzzStream holds that whatever a server sends is a whole turn or an error, once, and
// that calls are objects.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"{\"model\":\"m\",\"message\":{\"content\":\"a\"},\"done\":false}\n{\"done\":true,\"done_reason\":\"stop\",\"eval_count\":1}\n",
		"{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},\"done\":true}",
		"{\"error\":\"x\"}\n", "null\n[]\n{}\n", "{\"done\":true,\"done_reason\":\"load\"}\n", "\r\n\n{\"done\":true}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ended := false
		for ev, err := range answering(body).Stream(t.Context(), hello()) {
			if ended {
				t.Fatalf("%v and error %v behind the end", ev, err)
			}
			switch ev := ev.(type) {
			case llm.Finish:
				ended = true
			case llm.ToolCall:
				var object map[string]jsonx.Value
				if ev.ID == "" || ev.Name == "" || jsonx.Unmarshal(ev.Arguments, &object) != nil {
					t.Fatalf("call %+v is not whole", ev)
				}
			}
			ended = ended || err != nil
		}
		if !ended {
			t.Fatal("the stream has no end")
		}
	})
}

// FuzzSchema holds that any schema of a tool is sent or refused.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"allOf":[{"$ref":"#"}],"const":1}}}`))
	f.Add([]byte(`{"anyOf":[{"required":["a"]},true],"oneOf":[{}],"required":["b"]}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		req := hello()
		req.Tools = []llm.Tool{{Name: "f", InputSchema: json.RawMessage(schema)}}
		_, err := llm.Generate(t.Context(), answering([]byte(`{"done":true}`)), req)
		if err != nil && req.Validate() == nil {
			t.Fatalf("Generate: %v", err)
		}
	})
}

// FuzzHistory holds that a request is the same whether parts of it are kept from those before or
// not, whatever happens to the conversation between them, also for a model that takes no images.
func FuzzHistory(f *testing.F) {
	talk.Seed(f.Add)
	f.Fuzz(func(t *testing.T, data []byte) {
		var sent []byte
		client := func(show string) *ollama.Client {
			return ollama.New("m", &ollama.Options{Host: "llm.test", HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/api/show") {
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(show)), Request: r}, nil
				}
				if sent = talk.Sent(t, r); !json.Valid(sent) {
					t.Errorf("the body is no JSON: %s", sent)
				}
				return nil, io.ErrUnexpectedEOF
			})}})
		}
		clients := []*ollama.Client{client(`{"capabilities":["completion","vision"]}`), client(`{"capabilities":["completion"]}`)}
		vary := func(n int, req *llm.Request) {
			if n%5 == 0 {
				req.Tools, req.ToolChoice = []llm.Tool{{Name: "f"}}, llm.ToolChoiceRequired
			}
		}
		talk.Check(t, data, vary, func(n int, req *llm.Request) ([]byte, error) {
			sent = nil
			_, err := llm.Generate(t.Context(), clients[n%7%2], req)
			return sent, err
		})
	})
}
