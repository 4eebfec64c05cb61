package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
)

const (
	accepted = `{"action":"accept","content":{"name":"Ada"}}`
	declined = `{"action":"decline"}`
)

// TestPanics has handlers of every kind panic: the client is told of an internal error,
// nothing of what it was, and each client is served as before (SECA-8, ROB-2).
func TestPanics(t *testing.T) {
	everywhere(t, nil, func(t *testing.T, s surface, to *target) {
		p := connect(t, s, to, "")
		calls := []string{
			`"name":"panic","arguments":{}`, `"name":"panic_func","arguments":{}`, `"name":"panic_once","arguments":{}`, `"name":"panic_nil","arguments":{}`, `"name":"goexit","arguments":{}`,
		}
		if s.version == mcp.V2025_11_25 {
			calls = append(calls, `"name":"panic_task","arguments":{},"task":{}`)
		} else {
			calls = append(calls, `"name":"panic_task","arguments":{}`)
		}
		if s.modern() {
			m := p.callTool("panic_late", `{}`)
			if m.Result == nil || m.Result.RequestState == "" {
				t.Fatalf("got %s", m.raw)
			}
			calls = append(calls, fmt.Sprintf(`"name":"panic_late","arguments":{},"inputResponses":{"name":%s},"requestState":%q`, accepted, m.Result.RequestState))
		}
		check := func(what string, m said) {
			t.Helper()
			isTask := m.Result != nil && (m.Result.Task.TaskID != "" || m.Result.TaskID != "")
			if strings.Contains(m.raw, secret) || strings.Contains(m.raw, "goroutine") || strings.Contains(m.raw, ".go:") {
				t.Errorf("%s: the client is told %s", what, m.raw)
			}
			if !isTask && m.code() != mcp.CodeInternal && (m.Result == nil || !m.Result.IsError) {
				t.Errorf("%s: got %.200s, want an internal error", what, m.raw)
			}
			p.good(what)
		}
		for _, call := range calls {
			check(call, p.ask(mcp.MethodCallTool, call))
		}
		for _, uri := range []string{"test://panic", "test://panicfunc", "panic://x"} {
			check(uri, p.ask(mcp.MethodReadResource, fmt.Sprintf(`"uri":%q`, uri)))
		}
		check("prompt", p.ask(mcp.MethodGetPrompt, `"name":"panic","arguments":{"a":"x"}`))
		if s.version >= mcp.V2025_03_26 { // before there are no completions to declare
			check("completion of a prompt", p.ask(mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"panic"},"argument":{"name":"a","value":"x"}`))
			check("completion of a template", p.ask(mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"panic://{a}"},"argument":{"name":"a","value":"x"}`))
		}
	})
}

// TestPanickingHooks has the hooks of the program panic: middleware and
// authentication.
func TestPanickingHooks(t *testing.T) {
	middleware := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		if strings.HasPrefix(in.Name, "panic") || in.Method == mcp.MethodListPrompts {
			panic(secret)
		}
		result, err := next(ctx)
		if in.Name == "smuggled" {
			panic(secret)
		}
		return result, err
	}
	opts := &mcpserver.Options{Middleware: []mcpserver.Middleware{middleware}, HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}}
	for _, s := range surfaces {
		if s.way == "stdio" {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			to := newTarget(t, opts)
			p := connect(t, s, to, "ada")
			for _, ask := range [][2]string{
				{mcp.MethodCallTool, `"name":"panic","arguments":{}`}, {mcp.MethodCallTool, `"name":"panic_func","arguments":{}`}, {mcp.MethodCallTool, `"name":"smuggled","arguments":{}`},
				{mcp.MethodListPrompts, ``}, {mcp.MethodGetPrompt, `"name":"panic","arguments":{}`},
			} {
				if m := p.ask(ask[0], ask[1]); m.code() != mcp.CodeInternal || strings.Contains(m.raw, secret) {
					t.Errorf("%v: got %s, want an internal error", ask, m.raw)
				}
				p.good(ask[1])
			}
			if p.web == nil {
				return
			}
			for range 3 {
				got, err := p.web.send(http.MethodPost, p.call("1", "echo", `{}`), map[string]string{"X-User": "panic"})
				if err == nil && got.status < 400 {
					t.Errorf("who is not known: got %d %.100s", got.status, got.body)
				}
				if got, err := p.web.send(http.MethodPost, p.call("1", "echo", `{}`), map[string]string{"X-User": "nobody"}); err != nil || got.status != http.StatusUnauthorized {
					t.Errorf("who is refused: got %d %.100s, %v, want 401", got.status, got.body, err)
				}
			}
			p.good("the panics")
		})
	}
}

var ticketKeys = [][]byte{[]byte("0123456789abcdef0123456789abcdef")}

// TestForgedState sends requestState that is not, or not any more, the client's own:
// none of it is taken, and no handler goes on (SECA-12, MRTR-06).
func TestForgedState(t *testing.T) {
	for _, noParking := range []bool{false, true} {
		t.Run(fmt.Sprint("run again ", noParking), func(t *testing.T) {
			t.Parallel()
			to := newTarget(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: noParking, TicketKeys: ticketKeys}, HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
			ada, bob, nobody := connect(t, webModern, to, "ada"), connect(t, webModern, to, "bob"), connect(t, webModern, to, "")
			first := ada.callTool("greet", `{"text":"1"}`)
			state := first.Result.RequestState
			of := func(p *peer, tool, arguments, state string) said {
				raw, _ := json.Marshal(state)
				return p.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":%q,"arguments":%s,"inputResponses":{"name":%s},"requestState":%s`, tool, arguments, accepted, raw))
			}
			wrong := func(what string, m said) {
				t.Helper()
				if m.code() != mcp.CodeInvalidParams {
					t.Errorf("%s: got %.200s, want -32602", what, m.raw)
				}
			}
			step := 1
			if mcptest.Race {
				step = 10
			}
			for i := 0; i < len(state); i += step { // each character matters
				forged := []byte(state)
				if forged[i]++; forged[i] > 'z' {
					forged[i] = 'A'
				}
				wrong(fmt.Sprint("another character at ", i), of(ada, "greet", `{"text":"1"}`, string(forged)))
			}
			for what, forged := range map[string]string{
				"twice": state + state, "cut": state[:len(state)-1], "half": state[:len(state)/2], "empty": "", "padded": state + "=", "a space": state + " ", "before": "A" + state,
				"zeros": strings.Repeat("A", len(state)), "JSON": `{"flow":"x","round":1}`, "NUL": state + "\x00", "long": strings.Repeat("A", 1<<20), "other alphabet": strings.ReplaceAll(state, state[:1], "+"),
			} {
				if forged != state {
					wrong(what, of(ada, "greet", `{"text":"1"}`, forged))
				}
			}
			wrong("bob's", of(bob, "greet", `{"text":"1"}`, state))
			wrong("nobody's", of(nobody, "greet", `{"text":"1"}`, state))
			wrong("other arguments", of(ada, "greet", `{"text":"2"}`, state))
			wrong("more arguments", of(ada, "greet", `{"text":"1","n":1}`, state))
			wrong("another tool", of(ada, "twice", `{"text":"1"}`, state))
			wrong("another method", ada.ask(mcp.MethodGetPrompt, fmt.Sprintf(`"name":"greet","arguments":{"text":"1"},"inputResponses":{},"requestState":%q`, state)))
			if n := to.greeted.Load(); n != 0 {
				t.Errorf("%d handlers went on", n)
			}
			for range 3 { // the same again is legitimate: one run, the same outcome
				if m := of(ada, "greet", `{"text":"1"}`, state); m.text() != "Hello, Ada" {
					t.Errorf("her own: got %s", m.raw)
				}
			}
			wrong("other answers", ada.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":"greet","arguments":{"text":"1"},"inputResponses":{"name":%s},"requestState":%q`, declined, state)))
			if n := to.greeted.Load(); n != 1 {
				t.Errorf("%d handlers went on, want one", n)
			}
		})
	}
}

// TestRestartBetweenRounds starts the server anew between two rounds of a call: with the
// same keys the call goes on, with others it is refused (SECA-12, MRTR-06).
func TestRestartBetweenRounds(t *testing.T) {
	t.Parallel()
	round := func(p *peer, key, state string) said {
		return p.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":"twice","arguments":{},"inputResponses":{%q:%s},"requestState":%q`, key, accepted, state))
	}
	opts := &mcpserver.Options{Rounds: mcpserver.RoundOptions{TicketKeys: ticketKeys}}
	one := connect(t, webModern, newTarget(t, opts), "").callTool("twice", `{}`)
	two := round(connect(t, webModern, newTarget(t, opts), ""), "one", one.Result.RequestState)
	if two.Result == nil || two.Result.ResultType != mcp.ResultInputRequired {
		t.Fatalf("the second round: got %s", two.raw)
	}
	rotated := &mcpserver.Options{Rounds: mcpserver.RoundOptions{TicketKeys: [][]byte{[]byte(strings.Repeat("n", 32)), ticketKeys[0]}}}
	if m := round(connect(t, webModern, newTarget(t, rotated), ""), "two", two.Result.RequestState); m.text() != "Ada and Ada" {
		t.Errorf("the last round: got %s", m.raw)
	}
	for name, other := range map[string]*mcpserver.Options{"other keys": {Rounds: mcpserver.RoundOptions{TicketKeys: [][]byte{[]byte(strings.Repeat("x", 32))}}}, "generated keys": nil} {
		for _, state := range []string{one.Result.RequestState, two.Result.RequestState} {
			if m := round(connect(t, webModern, newTarget(t, other), ""), "one", state); m.code() != mcp.CodeInvalidParams {
				t.Errorf("%s: got %s, want -32602", name, m.raw)
			}
		}
	}
}

// fullDisk is a store that has no room.
type fullDisk struct{}

func (fullDisk) PutRecord(context.Context, store.Record) error { return store.ErrFull }

func (fullDisk) Record(context.Context, string, string, string) (store.Record, error) {
	return store.Record{}, store.ErrNotFound
}

func (fullDisk) Records(context.Context, store.RecordQuery) ([]store.Record, error) { return nil, nil }

func (fullDisk) DeleteRecord(context.Context, string, string, string) error { return store.ErrNotFound }

// TestFullDisk has a store without room: what needs it fails by itself.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{Records: fullDisk{}, HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	for _, s := range []surface{webLegacy, webModern} {
		p := connect(t, s, to, "ada")
		task := ""
		if !s.modern() {
			task = `,"task":{}`
		}
		for range 3 {
			if m := p.ask(mcp.MethodCallTool, `"name":"work","arguments":{}`+task); m.code() != mcp.CodeInternal {
				t.Errorf("%v, a task: got %s, want an internal error", s, m.raw)
			}
			p.good("a task without room")
		}
		if s.modern() {
			m := p.callTool("greet", `{}`)
			long := strings.Repeat("x", 60_000)
			m = p.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":"twice","arguments":{"text":%q}`, long[:10]))
			m = p.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":"twice","arguments":{"text":%q},"inputResponses":{"one":{"action":"accept","content":{"name":%q}}},"requestState":%q`, long[:10], long, m.Result.RequestState))
			if m.Error == nil && (m.Result == nil || !m.Result.IsError && m.Result.ResultType != mcp.ResultInputRequired) {
				t.Errorf("a large answer: got %.300s", m.raw)
			}
			p.good("an answer without room")
		}
	}
	mcptest.Eventually(t, mcptest.Patience, "rid of the work", func() bool { return to.blocked.Load() == 0 })
}

// TestDelete ends a session in the middle of its calls: they end, and it is gone for
// everybody (ROB-7, SHL-52, SHL-53).
func TestDelete(t *testing.T) {
	t.Parallel()
	to := newTarget(t, nil)
	for range 3 {
		p, other := connect(t, webLegacy, to, ""), connect(t, webLegacy, to, "")
		for i := range 5 {
			p.begin(p.call(fmt.Sprint(100+i), "block", `{}`))
			<-to.begun
		}
		p.begin(p.call("200", "greet", `{}`)) // waits for us
		if m := p.heard(mcptest.Patience); m.Method != mcp.MethodElicit {
			t.Fatalf("got %s", m.raw)
		}
		events := p.web.listen(t.Context(), nil)
		if got, err := p.web.send(http.MethodDelete, "", nil); err != nil || got.status != http.StatusNoContent {
			t.Fatalf("DELETE: got %d %.100s, %v", got.status, got.body, err)
		}
		for range 5 {
			select {
			case <-to.ended:
			case <-afterPatience():
				t.Fatal("a call goes on")
			}
		}
		for { // the stream ends
			if _, err := events.Next(); err != nil {
				break
			}
		}
		p.settle() // and so do the posts
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if got, err := p.web.send(method, p.call("1", "smuggled", `{}`), nil); err != nil || got.status != http.StatusNotFound {
				t.Errorf("%s afterwards: got %d %.100s, %v, want 404", method, got.status, got.body, err)
			}
		}
		other.good("the end of another session")
	}
	if n := to.smuggled.Load(); n != 0 {
		t.Errorf("the tool has run %d times", n)
	}
}

// clientVariable makes the test binary a client that is to be killed: its value is the
// address of a server.
const clientVariable = "TROUPE_HOSTILE_CLIENT"

// runClient has calls under way on all transports, and waits to be killed.
func runClient(url string) {
	t := &killed{}
	to := &target{url: url}
	for _, s := range []surface{webLegacy, webModern, {"sse", mcp.V2024_11_05}} {
		p := connect(t, s, to, "")
		p.begin(p.call("7", "block", `{}`))
		if s.way == "web" && !s.modern() {
			p.web.listen(context.Background(), nil)
		}
	}
	select {}
}

// killed is the test of a client that has none.
type killed struct{ testing.TB }

func (*killed) Helper()                          {}
func (*killed) Cleanup(func())                   {}
func (*killed) Context() context.Context         { return context.Background() }
func (*killed) Fatal(args ...any)                { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }
func (k *killed) Fatalf(format string, a ...any) { k.Fatal(fmt.Sprintf(format, a...)) }
func (k *killed) Errorf(format string, a ...any) { k.Fatal(fmt.Sprintf(format, a...)) }

// TestKilledClient kills clients in the middle of their calls: what a client of
// 2026-07-28 or HTTP+SSE has begun ends, the sessions of the others can be deleted, and
// nothing is left (ROB-7, SHM-09, SHL-15).
func TestKilledClient(t *testing.T) {
	to := newTarget(t, nil)
	connect(t, webModern, to, "").good("nothing") // what the server starts once is there
	before, _ := mcptest.Goroutines()
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), clientVariable+"="+to.url)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			select {
			case <-to.begun:
			case <-afterPatience():
				t.Error("the client does not call")
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for range 2 {
			select {
			case <-to.ended:
			case <-afterPatience():
				t.Fatal("the calls go on")
			}
		}
	}
	// The legacy calls go on, for clients that come back (SHL-15): three of them.
	if n := to.blocked.Load(); n != 3 {
		t.Errorf("%d calls go on, want 3", n)
	}
	connect(t, webModern, to, "").good("the dead")
	if err := to.server.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	mcptest.GoroutinesBack(t, before)
}

// TestKilledPipe kills the client of a server on stdio: the server's process ends.
func TestKilledPipe(t *testing.T) {
	t.Parallel()
	for _, s := range surfaces[:3] {
		p := connect(t, s, nil, "")
		for i := range 10 {
			p.say(p.call(fmt.Sprint(100+i), "block", `{}`))
		}
		p.say(p.call("200", "greet", `{}`))
		p.good("the calls")
		p.hang() // the end of the process is waited for, and must be in good order
	}
}

// TestFiles walks out of a tree of files that is served (SECA-46).
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	for path, text := range map[string]string{filepath.Join(inside, "fine.txt"): "fine", filepath.Join(dir, "secret.txt"): secret} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"link.txt": "../secret.txt", "up": "..", "root": "/"} {
		if err := os.Symlink(to, filepath.Join(inside, from)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	target := newTarget(t, nil)
	if err := mcpserver.ServeFS(target.server, "file:///project/", root.FS(), nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range []surface{webLegacy, webModern} {
		p := connect(t, s, target, "")
		if m := p.ask(mcp.MethodReadResource, `"uri":"file:///project/fine.txt"`); !strings.Contains(m.raw, "fine") || m.Error != nil {
			t.Errorf("a file: got %s", m.raw)
		}
		for _, path := range []string{
			"../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "%2e%2e%2fsecret.txt", "link.txt", "up/secret.txt", "root" + dir + "/secret.txt", "..\\secret.txt", "fine.txt/../../secret.txt",
			"./../secret.txt", "//secret.txt", "%00", "fine.txt%00", "C:/secret.txt", ".", "..", "/etc/passwd", "%252e%252e/secret.txt",
		} {
			if m := p.ask(mcp.MethodReadResource, fmt.Sprintf(`"uri":%q`, "file:///project/"+path)); m.Error == nil || strings.Contains(m.raw, secret) {
				t.Errorf("%q: got %.200s, want an error", path, m.raw)
			}
		}
		for _, uri := range []string{"file://evil.example/project/fine.txt", "file:///etc/passwd", "FILE:///project/../secret.txt", "file:/project/../secret.txt", "http://project/fine.txt"} {
			if m := p.ask(mcp.MethodReadResource, fmt.Sprintf(`"uri":%q`, uri)); m.Error == nil {
				t.Errorf("%q: got %.200s, want an error", uri, m.raw)
			}
		}
	}
}

// TestSharedCaches never offers what is one principal's to shared caches (SECA-47).
func TestSharedCaches(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{Lists: mcpserver.ListOptions{CacheFor: time.Hour}, HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	for _, user := range []string{"ada", ""} {
		p := connect(t, webModern, to, user)
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodListPrompts, mcp.MethodDiscover} {
			if m := p.ask(method, ""); m.Error != nil || strings.Contains(m.raw, `"cacheScope":"public"`) {
				t.Errorf("%s of %q: got %.300s, want it private", method, user, m.raw)
			}
		}
	}
}
