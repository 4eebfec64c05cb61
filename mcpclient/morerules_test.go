package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// CANC-12: why a server withdraws a question reaches the person that is asked, and the
// log.
func TestReasonOfAWithdrawal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		causes := make(chan error, 1)
		human := &decider{decide: func(ctx context.Context, _ *Ask) (*Decision, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}}
		var log syncBuilder
		s := newAsker(t, mcp.V2025_11_25)
		s.dial(&Options{Logger: logTo(&log), AskOptions: AskOptions{Human: human}})
		s.send("q", mcp.MethodElicit, elicitForm("?"))
		synctest.Wait()
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"the file is gone"}}`)
		synctest.Wait()
		select {
		case cause := <-causes:
			if !strings.Contains(cause.Error(), "the file is gone") {
				t.Errorf("the person is told %q", cause)
			}
		default:
			t.Error("the question is still open")
		}
		if !strings.Contains(log.String(), "the file is gone") {
			t.Errorf("the reason is not in the log:\n%s", log.String())
		}
	})
}

// SAMP-09: which model answers is the program's choice. What the server would like
// reaches the Sampler as it is, the hints in their order.
func TestModelPreferences(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var got *mcp.ModelPreferences
		s := newAsker(t, mcp.V2025_11_25)
		s.dial(&Options{AskOptions: AskOptions{SampleFreely: true, Sampler: SamplerFunc(func(_ context.Context, r *SampleRequest) (*mcp.CreateMessageResult, error) {
			got = r.Params.ModelPreferences
			return &mcp.CreateMessageResult{Model: "another", Content: mcp.Contents{&mcp.TextContent{Text: "ok"}}}, nil
		})}})
		const wish = `{"hints":[{"name":"sonnet"},{"name":"gpt"},{"name":"a"}],"costPriority":0.5,"speedPriority":0,"intelligencePriority":1}`
		answer := s.ask("q", mcp.MethodCreateMessage, strings.TrimSuffix(sampleHello, "}")+`,"modelPreferences":`+wish+`}`)
		wantJSON(t, "answer", answer, `{"role":"assistant","model":"another","content":{"type":"text","text":"ok"}}`)
		raw, err := mcp.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		wantJSON(t, "the Sampler is told", string(raw), wish)
	})
}

// TASK-18: what belongs to a task may come on any stream. The question of a task comes
// on the server's own, and is known to be its task's among other calls; the stream of
// tasks/result ends without an answer, and the call still ends as it should.
func TestTaskOnAnyStream(t *testing.T) {
	var asked, answered, results int
	var mu sync.Mutex
	var own, done chan struct{} // closed when the question may go out, and when it is answered
	task := func(status string) string {
		return fmt.Sprintf(`{"taskId":"t1","status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":600000,"pollInterval":1000}`, status)
	}
	reply := func(w http.ResponseWriter, r *posted, result string) {
		say(w, 200, `{"jsonrpc":"2.0","id":`+r.ID.String()+`,"result":`+result+`}`)
	}
	over := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	serve := func(w http.ResponseWriter, r *posted) {
		mu.Lock()
		defer mu.Unlock()
		switch r.Method {
		case mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", "s-1")
			reply(w, r, `{"protocolVersion":"2025-11-25","capabilities":`+coreCaps+`,"serverInfo":{"name":"x","version":"1"}}`)
		case mcp.MethodListTools:
			reply(w, r, tripleList)
		case mcp.MethodCallTool:
			reply(w, r, `{"task":`+task(mcp.TaskWorking)+`}`)
		case mcp.MethodGetTask:
			switch {
			case over():
				reply(w, r, task(mcp.TaskCompleted))
			default:
				reply(w, r, task(mcp.TaskInputRequired))
			}
		case mcp.MethodTaskResult:
			if results++; over() {
				reply(w, r, `{"content":[{"type":"text","text":"done"}]}`)
				return
			}
			if asked++; asked == 1 {
				close(own)
			}
			sayStream(w) // and ends without an answer
		default:
			if r.Kind == mcp.KindResult && r.ID.String() == `"q"` {
				answered++
				close(done)
			}
			legacyWeb(okWeb)(w, r)
		}
	}
	webBubble(t, func(w http.ResponseWriter, r *posted) {
		if name, _ := r.NameString(); name == "not" { // a call that has no task, and is under way meanwhile
			<-done
			okWeb(w, r)
			return
		}
		if r.HTTP != http.MethodGet {
			serve(w, r)
			return
		}
		select { // the server's own stream
		case <-own:
			sayStream(w, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}}`)
		case <-r.Ctx.Done():
		}
		<-r.Ctx.Done()
	}, func(t *testing.T, _ *webServer, opts *Options) {
		own, done = make(chan struct{}), make(chan struct{}) // of the bubble
		human := says(mcp.ActionAccept, "a", `"yes"`)
		opts.AskOptions.Human = human
		c, err := Dial(t.Context(), webAt("/"), opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		other := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, "not", nil, nil)
			other <- err
		}()
		synctest.Wait()
		res, err := c.CallTool(ctx, "must", nil, nil)
		if err := <-other; err != nil {
			t.Errorf("CallTool of another tool: %v", err)
		}
		if err != nil || res.Content.Text() != "done" {
			t.Errorf("CallTool: got %+v, %v", res, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if asks := human.seen(); len(asks) != 1 || answered != 1 || len(asks[0].Calls) != 1 || asks[0].Calls[0].Name != "must" {
			t.Errorf("asked %+v, answered %d times", asks, answered)
		}
		if results < 2 {
			t.Errorf("the stream of tasks/result was not dropped: %d requests", results)
		}
	})
}

// EXT-01: a legacy server is told of the program's extensions in the handshake, and of
// none where the program has none (EXT-02).
func TestExtensionsInTheHandshake(t *testing.T) {
	for _, tt := range []struct {
		extensions map[string]json.RawMessage
		want       string
	}{
		{map[string]json.RawMessage{"com.example/a": json.RawMessage(`{"max":3}`)}, `{"com.example/a":{"max":3}}`},
		{nil, `null`},
	} {
		inBubble(t, func(t *testing.T) {
			s := newAsker(t, mcp.V2025_06_18)
			s.dial(&Options{Extensions: tt.extensions})
			raw, err := json.Marshal(s.declared.Extensions)
			if err != nil {
				t.Fatal(err)
			}
			wantJSON(t, "declared", string(raw), tt.want)
		})
	}
}

// ROOT-01, SECA-46: a root that is no file URI is refused when it is set, and the
// server keeps those that it had.
func TestRootsThatCanNotBe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		c := s.dial(&Options{AskOptions: AskOptions{Roots: []mcp.Root{{URI: "file:///a"}}, RootAvailable: func(string) bool { return true }}})
		for _, uri := range []string{"https://x.example/a", "/a", "file:///a/../..", ""} {
			if err := c.SetRoots([]mcp.Root{{URI: "file:///b"}, {URI: uri}}); err == nil {
				t.Errorf("SetRoots(%q): got no error", uri)
			}
		}
		synctest.Wait()
		if n := len(s.requests(mcp.NotificationRootsChanged)); n != 0 {
			t.Errorf("the server was told %d times", n)
		}
		wantJSON(t, "roots", s.ask("q", mcp.MethodListRoots, ""), `{"roots":[{"uri":"file:///a"}]}`)
	})
}
