package models

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
)

func TestMain(m *testing.M) { mcptest.Run(m, 4) }

// key is a secret that nothing may show (SECA-27).
const key = "sk-hostile-0123456789abcdef"

// dialect is one of the APIs of models.
type dialect struct {
	name   string
	kind   string // of content of a stream
	client func(url string) llm.Model
	// What a stream says.
	empty    string
	text     func(text string) string // JSON in a string, without quotes
	thinking func(text string) string
	call     func(index int, id, name, args string) string // JSON all of them but index
	finish   func(reason string) string                    // the last, but for end
	usage    func(in, out string) string
	end      string
}

var dialects = []dialect{
	{
		name: "openai", kind: "text/event-stream",
		client: func(url string) llm.Model {
			return openai.New("m", &openai.Options{BaseURL: url, APIKey: key, FirstByteTimeout: 2 * time.Second, IdleTimeout: 2 * time.Second})
		},
		empty: "data: {\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n",
		text: func(text string) string {
			return "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + text + "\"}}]}\n\n"
		},
		thinking: func(text string) string {
			return "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"" + text + "\"}}]}\n\n"
		},
		call: func(index int, id, name, args string) string {
			return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":%s,\"function\":{\"name\":%s,\"arguments\":%s}}]}}]}\n\n", index, id, name, args)
		},
		finish: func(reason string) string {
			return "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" + reason + "\"}]}\n\n"
		},
		usage: func(in, out string) string {
			return "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":" + in + ",\"completion_tokens\":" + out + "}}\n\n"
		},
		end: "data: [DONE]\n\n",
	},
	{
		name: "ollama", kind: "application/x-ndjson",
		client: func(url string) llm.Model {
			return ollama.New("m", &ollama.Options{Host: url, APIKey: key, IdleTimeout: 2 * time.Second})
		},
		empty: "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n",
		text: func(text string) string {
			return "{\"message\":{\"content\":\"" + text + "\"},\"done\":false}\n"
		},
		thinking: func(text string) string {
			return "{\"message\":{\"thinking\":\"" + text + "\"},\"done\":false}\n"
		},
		call: func(index int, id, name, args string) string {
			return fmt.Sprintf("{\"message\":{\"tool_calls\":[{\"id\":%s,\"function\":{\"index\":%d,\"name\":%s,\"arguments\":%s}}]},\"done\":false}\n", id, index, name, args)
		},
		finish: func(string) string { return "" },
		usage: func(in, out string) string {
			return "{\"message\":{},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":" + in + ",\"eval_count\":" + out + "}\n"
		},
	},
}

func eachDialect(t *testing.T, f func(t *testing.T, d *dialect)) {
	t.Helper()
	for i := range dialects {
		t.Run(dialects[i].name, func(t *testing.T) { f(t, &dialects[i]) })
	}
}

// serve runs a server of models for the length of the test. An answer ends with it.
func serve(t testing.TB, h http.HandlerFunc) (url string) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	s := httptest.NewUnstartedServer(h)
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(func() {
		end()
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// stream answers with 200 and a stream that say writes.
func (d *dialect) stream(say func(r *http.Request, w *bufio.Writer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", d.kind)
		out := bufio.NewWriterSize(w, 32<<10)
		say(r, out)
		_ = out.Flush()
	}
}

// forever writes a text until the connection ends.
func forever(w *bufio.Writer, text string) {
	block := strings.Repeat(text, 1+(64<<10)/len(text))
	for {
		if _, err := w.WriteString(block); err != nil {
			return
		}
	}
}

// drip writes a text now and then, until the connection ends.
func drip(r *http.Request, w http.ResponseWriter, text string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// run runs one turn, and checks what holds for all of
// them: it ends, once, and no error shows the key or obeys the server.
func run(t testing.TB, m llm.Model, req *llm.Request) (*llm.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), mcptest.Patience, errHang)
	defer cancel()
	resp, err := llm.Generate(ctx, m, req)
	if errors.Is(err, errHang) {
		t.Fatalf("the turn has not ended within %v", mcptest.Patience)
	}
	checkError(t, err)
	return resp, err
}

var errHang = errors.New("it hangs")

// checkError holds an error against what all of them promise (SECA-27).
func checkError(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error()
	if len(text) > 4<<10 {
		t.Errorf("the error has %d bytes: %.200q", len(text), text)
	}
	if strings.Contains(text, key) {
		t.Errorf("the error shows the key: %.400q", text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the error has what a terminal obeys: %.400q", text)
	}
}

func hello() *llm.Request {
	return &llm.Request{
		System: "You help.", Messages: []llm.Message{llm.User("Hello")},
		Tools: []llm.Tool{{Name: "add", InputSchema: []byte(`{"type":"object","properties":{"a":{"type":"integer"}}}`)}},
	}
}
