package openai_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/talk"
	"github.com/troupe-dev/troupe/llm/openai"
)

// FuzzStream holds that whatever a server sends is a whole turn or an error, once, and
// that calls are objects.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		": ping\r\n\r\ndata:{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]},\"finish_reason\":\"tool_calls\"}]}",
		"\uFEFFdata: {\"choices\":[{\"index\":\"0\",\"delta\":{\"content\":\"a\"}}]}\r\rdata: [DONE]\r\r", "data: [{\"error\":{\"code\":429}}]\n\n", "[{\"error\":{}}]",
		"data: {\"error\":\"x\"}\n\n", "{\"error\":{\"message\":[\"x\"],\"code\":7}}\n", "data: null\n\ndata: []\n\n", "data: {\"choices\":[null,{}],\"usage\":{}}\n",
	} {
		f.Add([]byte(seed), "text/event-stream")
		f.Add([]byte(seed), "application/json")
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		checkEnd(t, body, contentType, openai.APIChat)
	})
}

// FuzzResponse holds the same of the Responses API.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"1","name":"f","arguments":""}}`, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{"}`,
		`{"type":"response.output_item.done","output_index":"1","item":{"type":"reasoning","encrypted_content":"x","summary":[{"text":"a"}],"content":null}}`, `{"type":"response.output_text.delta","output_index":-1,"delta":"a"}`,
		`{"type":"response.completed","response":{"status":"completed","output":[null,{},{"type":"message","content":[{"refusal":"no"}]}],"usage":{"input_tokens":1e99}}}`,
		`{"type":"response.failed","response":{"error":7}}`, `{"type":"error","message":[]}`, `{"output":[{"type":"function_call"}],"status":"incomplete","incomplete_details":[]}`, `{"type":"response.completed"}`, "null",
	} {
		f.Add([]byte("data: "+seed+"\n\n"), "text/event-stream")
		f.Add([]byte(seed), "application/json")
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		checkEnd(t, body, contentType, openai.APIResponses)
	})
}

// checkEnd holds that an answer is a whole turn or an error, once.
func checkEnd(t *testing.T, body []byte, contentType string, api openai.API) {
	t.Helper()
	c := openai.New("m", &openai.Options{API: api, HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}},
			Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		}, nil
	})}})
	ended := false
	for ev, err := range c.Stream(t.Context(), hello()) {
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
}

// FuzzHistory holds that a request is the same whether parts of it are kept from those before or
// not, whatever happens to the conversation between them, and by whichever client it was sent.
func FuzzHistory(f *testing.F) {
	talk.Seed(f.Add)
	f.Fuzz(func(t *testing.T, data []byte) {
		var sent []byte
		transport := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = talk.Sent(t, r)
			return nil, io.ErrUnexpectedEOF
		})}
		clients := []*openai.Client{
			openai.New("m", &openai.Options{HTTPClient: transport}),
			openai.New("gpt-6", &openai.Options{HTTPClient: transport, StrictTools: true, OneCall: true, MetadataKeys: []string{"k"}}), // by the Responses API
		}
		talk.Check(t, data, nil, func(n int, req *llm.Request) ([]byte, error) {
			sent = nil
			_, err := llm.Generate(t.Context(), clients[n%7%2], req)
			return sent, err
		})
	})
}
