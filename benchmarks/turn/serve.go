package turn

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
)

// Model is the name that a [Serve] gives itself.
const Model = "scripted"

// pieces is how long a part of a text or of the arguments of a call is that comes at once, in bytes.
const pieces = 24

// Serve is the scripted model with OpenAI's API in a process of its own: it prints its URL, streams its
// answers in small pieces, and ends with its input.
func Serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/v1\n", listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		listener.Close()
	}()
	return http.Serve(listener, http.HandlerFunc(complete))
}

// Client is what a program asks a [Serve] with: it keeps a connection for each session.
func (o *Options) Client() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, max(o.At, o.Live)
	return &http.Client{Transport: t}
}

// complete answers one request as a stream.
func complete(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Stream   bool              `json:"stream"`
		Tools    []json.RawMessage `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	err := json.NewDecoder(r.Body).Decode(&req)
	if err == nil && (!req.Stream || len(req.Tools) != len(Tools)) {
		err = fmt.Errorf("stream %t and %d tools", req.Stream, len(req.Tools))
	}
	results := 0
	for _, m := range req.Messages {
		if m.Role == "tool" {
			results++
		}
	}
	calls, text, wrong := says(results)
	if err == nil {
		err = wrong
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const chunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764000000,"model":"` + Model + `","choices":[%s],"usage":%s}` + "\n\n"
	send := func(choices, usage string) {
		_, _ = fmt.Fprintf(w, chunk, choices, usage) // a client that has gone ends the request
		w.(http.Flusher).Flush()
	}
	delta := func(body string) {
		send(`{"index":0,"delta":`+body+`,"logprobs":null,"finish_reason":null}`, "null")
	}
	delta(`{"role":"assistant","content":""}`)
	for piece := range slices.Chunk([]byte(text), pieces) {
		delta(`{"content":` + quoted(string(piece)) + `}`)
	}
	reason := "stop"
	for i, c := range calls {
		reason = "tool_calls"
		delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, i, c.ID, c.Tool))
		for piece := range slices.Chunk([]byte(c.Arguments), pieces) {
			delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quoted(string(piece))))
		}
	}
	send(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"`+reason+`"}`, "null")
	send("", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100}`)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string is never an error
	return string(b)
}
