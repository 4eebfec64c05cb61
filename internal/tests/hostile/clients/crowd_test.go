package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// TestManyClients has many clients use the same ids and progress tokens: each gets its
// own answers, progress and log messages, and no other's (SECA-6, CORR-01).
func TestManyClients(t *testing.T) {
	for _, s := range surfaces {
		if s.way == "stdio" {
			continue // each is a process
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			to := newTarget(t, nil)
			var all sync.WaitGroup
			for c := range 50 {
				p := connect(t, s, to, "")
				all.Go(func() { p.marked(fmt.Sprint("client", c), mcptest.Fewer(10)) })
			}
			all.Wait()
		})
	}
}

// marked calls n times, with what only this client says.
func (p *peer) marked(marker string, n int) {
	for id := range n {
		want := fmt.Sprint(marker, " ", id, ".")
		p.begin(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"marker","arguments":{"text":%q},"_meta":{%s"progressToken":"t"}}}`, id, want, p.metaWithLogs()))
		for {
			var m said
			select {
			case line := <-p.lines:
				m, _ = read(line)
			case <-afterPatience():
				p.t.Errorf("%s: no answer", want)
				return
			}
			if !strings.Contains(m.raw, want) && (m.Method != mcp.NotificationProgress || p.version != mcp.V2024_11_05) { // that has no text
				p.t.Errorf("%s: got %.200s", want, m.raw)
			}
			if string(m.ID) == fmt.Sprint(id) {
				break
			}
		}
	}
}

func (s surface) metaWithLogs() string {
	if s.modern() {
		return meta + `,"io.modelcontextprotocol/logLevel":"info",`
	}
	return ""
}

// opened is a legacy session over HTTP of a user.
func opened(t *testing.T, to *target, user string) *peer {
	t.Helper()
	return connect(t, surface{"web", mcp.V2025_11_25}, to, user)
}

// TestStolenSessions uses session ids that were guessed, stolen and changed: a
// session exists for its own principal only (SECA-7, SHL-54).
func TestStolenSessions(t *testing.T) {
	to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	ada := opened(t, to, "ada")
	ada.begin(ada.call("77", "block", `{"text":"ada"}`))
	<-to.begun
	call := ada.call("1", "smuggled", `{}`)
	for _, user := range []string{"bob", ""} {
		for _, attack := range []struct{ method, body string }{
			{http.MethodPost, call}, {http.MethodGet, ""}, {http.MethodDelete, ""}, {http.MethodPost, `[` + call + `]`},
			{http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`}, {http.MethodPost, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		} {
			got, err := ada.web.send(attack.method, attack.body, map[string]string{"X-User": orNone(user)})
			if err != nil || got.status != http.StatusNotFound || got.header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%q with ada's session, %s %.50s: got %d %.100s, %v, want 404", user, attack.method, attack.body, got.status, got.body, err)
			}
		}
	}
	id := ada.web.session
	for _, guess := range []string{strings.ToLower(id), id + " x", id[:len(id)-1], id + "A", strings.Repeat("A", len(id)), "1", "../" + id, "%00", strings.Repeat("x", 100_000)} {
		got, err := ada.web.send(http.MethodPost, call, map[string]string{"Mcp-Session-Id": guess})
		if err != nil || got.status != http.StatusNotFound && got.status != http.StatusBadRequest && got.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("session %.60q: got %d %.100s, %v, want 404", guess, got.status, got.body, err)
		}
	}
	if got, err := ada.web.send(http.MethodPost, call, map[string]string{"Mcp-Session-Id": "-"}); err != nil || got.status != http.StatusBadRequest {
		t.Errorf("no session: got %d %.100s, %v, want 400", got.status, got.body, err)
	}
	if n := to.smuggled.Load(); n != 0 {
		t.Errorf("the tool has run %d times", n)
	}
	select {
	case <-to.ended:
		t.Error("the call was ended by another client")
	default:
	}
	ada.good("the thieves")
}

func orNone(value string) string {
	if value == "" {
		return "-"
	}
	return value
}

// TestStolenKeys is TestStolenSessions for HTTP+SSE, whose session is in the address
// (SECA-7, SSE-07).
func TestStolenKeys(t *testing.T) {
	to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	ada := connect(t, surface{"sse", mcp.V2024_11_05}, to, "ada")
	call := ada.call("1", "smuggled", `{}`)
	for _, user := range []string{"bob", ""} {
		if got, err := ada.web.send(http.MethodPost, call, map[string]string{"X-User": orNone(user)}); err != nil || got.status != http.StatusNotFound {
			t.Errorf("%q with ada's key: got %d %.100s, %v, want 404", user, got.status, got.body, err)
		}
	}
	guess := newWeb(t, ada.web.url[:len(ada.web.url)-1], "ada")
	if got, err := guess.send(http.MethodPost, call, nil); err != nil || got.status != http.StatusNotFound {
		t.Errorf("a guessed key: got %d %.100s, %v, want 404", got.status, got.body, err)
	}
	web := opened(t, to, "ada")
	if got, err := web.web.send(http.MethodPost, call, map[string]string{"Mcp-Session-Id": strings.Split(ada.web.url, "=")[1]}); err != nil || got.status != http.StatusNotFound {
		t.Errorf("the key as a session: got %d %.100s, %v, want 404", got.status, got.body, err)
	}
	if n := to.smuggled.Load(); n != 0 {
		t.Errorf("the tool has run %d times", n)
	}
	ada.good("the thieves")
}

// TestForeignEvents resumes a stream of another client, by its event ids: of another
// session, and of the same session by another principal (SECA-7, SHL-41, SHL-42).
func TestForeignEvents(t *testing.T) {
	to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	ada, bob := opened(t, to, "ada"), opened(t, to, "bob")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A call of ada's whose stream breaks off: its events stay in her log.
	text := `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"marker","arguments":{"text":"for ada only"},"_meta":{"progressToken":1}}}`
	got, err := ada.postOf(text)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	for line := range strings.Lines(got.body) {
		if v, ok := strings.CutPrefix(line, "id:"); ok && id == "" {
			id = strings.TrimSpace(v)
		}
	}
	if id == "" {
		t.Fatalf("no event id in %q", got.body)
	}
	wrong := []string{id, "", "0", "x", strings.Repeat("9", 40), "-1", id + "9", "1-0", "1_0", "9999999-1", strings.Repeat("1", 7000)}
	for _, event := range wrong {
		resp, err := bob.web.start(ctx, http.MethodGet, nil, map[string]string{"Last-Event-ID": event})
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			// It may be a stream of bob's own: then nothing of ada's is on it.
			bob.t.Cleanup(func() { resp.Body.Close() })
			head := make([]byte, 4096)
			n, _ := resp.Body.Read(head)
			if strings.Contains(string(head[:n]), "for ada only") {
				t.Errorf("Last-Event-ID %.50q: bob gets %q", event, head[:n])
			}
		} else if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("Last-Event-ID %.50q: got %d, want 400", event, resp.StatusCode)
		}
	}
	if resp, err := ada.web.start(ctx, http.MethodGet, nil, map[string]string{"Last-Event-ID": id, "X-User": "bob"}); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("ada's session of bob's: got %v, %v, want 404", resp.StatusCode, err)
	} else {
		resp.Body.Close()
	}
}

// TestForeignCancels cancels the calls of another client, and tasks (CANC-08, SHM-16,
// SECA-12): ids of others mean nothing.
func TestForeignCancels(t *testing.T) {
	for _, s := range surfaces {
		if s.way == "stdio" {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
			one, other := connect(t, s, to, "ada"), connect(t, s, to, "bob")
			one.begin(one.call("7", "block", `{"text":"one"}`))
			<-to.begun
			cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"_meta":{` + strings.TrimSuffix(s.meta(), ",") + `}}}`
			for _, id := range []string{"7", `"7"`, "7.0", `"init"`, "null"} {
				other.say(fmt.Sprintf(cancel, id))
				if id != "7" {
					one.say(fmt.Sprintf(cancel, id)) // CANC-07: nor unknown ones
				}
			}
			other.good("the cancels")
			one.good("the cancels")
			select {
			case <-to.ended:
				t.Error("the call was cancelled")
			default:
			}
			if s.modern() && s.way == "web" {
				return // there a cancel is a disconnect
			}
			one.say(fmt.Sprintf(cancel, "7"))
			select {
			case <-to.ended:
			case <-afterPatience():
				t.Error("its own cancel does nothing")
			}
		})
	}
}

// TestForeignTasks reads, cancels and answers tasks of another client, with their ids
// (SECA-12, TASK-16, XTASK-18).
func TestForeignTasks(t *testing.T) {
	to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	legacy, modern := surface{"web", mcp.V2025_11_25}, surface{"web", mcp.V2026_07_28}
	ada := connect(t, legacy, to, "ada")
	m := ada.ask(mcp.MethodCallTool, `"name":"work","arguments":{"text":"task"},"task":{}`)
	if m.Result == nil || m.Result.Task.TaskID == "" {
		t.Fatalf("got %s", m.raw)
	}
	id := m.Result.Task.TaskID
	<-to.begun
	for _, s := range []surface{legacy, modern} {
		for _, user := range []string{"bob", ""} {
			p := connect(t, s, to, user)
			for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/update"} {
				if m := p.ask(method, fmt.Sprintf(`"taskId":%q,"inputResponses":{}`, id)); m.Error == nil {
					t.Errorf("%s of ada's task by %q over %v: got %s", method, user, s, m.raw)
				}
			}
			if m := p.ask("tasks/list", ""); strings.Contains(m.raw, id) {
				t.Errorf("the tasks of %q over %v: got %s", user, s, m.raw)
			}
		}
	}
	select {
	case <-to.ended:
		t.Error("the task was cancelled by another client")
	default:
	}
	if m := ada.ask("tasks/cancel", fmt.Sprintf(`"taskId":%q`, id)); m.Error != nil {
		t.Errorf("her own cancel: got %s", m.raw)
	}
}

// TestUnsolicited sends unsolicited answers: to unknown ids, twice, of
// another client, and after the call was over (SECA-13, CORR-04).
func TestUnsolicited(t *testing.T) {
	for _, s := range []surface{{"web", mcp.V2025_11_25}, {"sse", mcp.V2024_11_05}, {"memory", mcp.V2025_11_25}} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			if s.version == mcp.V2024_11_05 {
				s.version = mcp.V2025_06_18 // SSE-12: elicitation
			}
			to := newTarget(t, nil)
			one, other := connect(t, s, to, ""), connect(t, s, to, "")
			one.begin(one.call("7", "greet", `{}`))
			question := one.heard(mcptest.Patience)
			if question.Method != mcp.MethodElicit {
				t.Fatalf("got %s", question.raw)
			}
			answer := func(id, name string) string {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":%q}}}`, id, name)
			}
			other.say(answer(string(question.ID), "Mallory"))
			for _, id := range []string{"7", `"7"`, "99999", "-1", `"x"`, string(question.ID) + "0"} {
				one.say(answer(id, "Mallory"))
				other.say(answer(id, "Mallory"))
			}
			one.good("the answers")
			if n := to.greeted.Load(); n != 0 {
				t.Fatal("the question was answered by something else")
			}
			one.say(answer(string(question.ID), "Ada"))
			if m := one.await("7", mcptest.Patience); m.text() != "Hello, Ada" {
				t.Errorf("got %s", m.raw)
			}
			for range 3 {
				one.say(answer(string(question.ID), "Mallory"))
			}
			one.good("the same answer again")
			if n := to.greeted.Load(); n != 1 {
				t.Errorf("the handler went on %d times", n)
			}
		})
	}
}

// TestHosts comes from where it must not, on every route (SECA-1, SECA-2, SECA-3).
func TestHosts(t *testing.T) {
	to := newTarget(t, nil)
	for _, path := range []string{"/mcp", "/sse"} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions, http.MethodPut} {
			for _, header := range []map[string]string{
				{"Host": "evil.example"}, {"Host": "localhost.evil.example"}, {"Host": "127.0.0.1.nip.io"}, {"Host": "evil.example:80"}, {"Host": "127.0.0.1@evil.example"},
				{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost.evil.example"}, {"Origin": "file://"}, {"Origin": "http://127.0.0.1.nip.io"}, {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"},
			} {
				w := newWeb(t, to.url+path, "")
				got, err := w.send(method, surface{"web", mcp.V2025_11_25}.initialize(), header)
				if err == nil && got.status != http.StatusForbidden && got.status != http.StatusBadRequest {
					t.Errorf("%s %s with %v: got %d %.100s, want 403", method, path, header, got.status, got.body)
				}
			}
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "-", "application/json; charset=utf-16", "text/plain; application/json"} {
			w := newWeb(t, to.url+path, "")
			if got, err := w.send(http.MethodPost, surface{"web", mcp.V2025_11_25}.initialize(), map[string]string{"Content-Type": kind}); err != nil || got.status != http.StatusUnsupportedMediaType {
				t.Errorf("%s with type %q: got %d %.100s, %v, want 415", path, kind, got.status, got.body, err)
			}
		}
	}
	opened(t, to, "").good("the strangers")
}

// TestDisagreeingHeaders names one thing in the headers, and another in the body: it is
// not done (SECA-5, HDR-05).
func TestDisagreeingHeaders(t *testing.T) {
	to := newTarget(t, nil)
	p := connect(t, surface{"web", mcp.V2026_07_28}, to, "")
	body := p.call("1", "smuggled", `{}`)
	for _, header := range []map[string]string{
		{"Mcp-Method": "tools/list"}, {"Mcp-Method": "-"}, {"Mcp-Method": "TOOLS/CALL"}, {"Mcp-Name": "echo"}, {"Mcp-Name": "-"}, {"Mcp-Name": "Smuggled"}, {"Mcp-Name": "smuggled,echo"},
		{"Mcp-Name": "=?base64?ZWNobw==?="}, {"Mcp-Name": "=?base64?!!?="}, {"Mcp-Name": ""}, {"Mcp-Protocol-Version": "2025-11-25"}, {"Mcp-Protocol-Version": "-"}, {"Mcp-Protocol-Version": "2026-07-29"},
	} {
		all := p.mirrored(body)
		for name, value := range header {
			all[name] = value
		}
		got, err := p.web.send(http.MethodPost, body, all)
		if err != nil || got.status != http.StatusBadRequest || got.code() != mcp.CodeHeaderMismatch {
			t.Errorf("%v: got %d %.200s, %v, want 400 with -32020", header, got.status, got.body, err)
		}
		if !json.Valid([]byte(got.body)) {
			t.Errorf("%v: got %q, want JSON", header, got.body)
		}
	}
	if n := to.smuggled.Load(); n != 0 {
		t.Errorf("the tool has run %d times", n)
	}
	if got, err := p.web.send(http.MethodPost, body, p.mirrored(body)); err != nil || got.status != http.StatusOK || to.smuggled.Load() != 1 {
		t.Errorf("with headers that agree: got %d %.100s, %v", got.status, got.body, err)
	}
}
