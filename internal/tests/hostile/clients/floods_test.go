package clients

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

var (
	webLegacy = surface{"web", mcp.V2025_11_25}
	webModern = surface{"web", mcp.V2026_07_28}
)

// refused fails unless an answer is an error that says why.
func refused(t *testing.T, what string, m said) {
	t.Helper()
	if m.Error == nil || m.Error.Message == "" {
		t.Errorf("%s: got %.200s, want an error", what, m.raw)
	}
}

// TestFloodOfSessions opens more sessions than there may be: unused ones make
// room, who uses one keeps it, and beyond that they are refused (SECA-9).
func TestFloodOfSessions(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{MaxSessions: 20}})
	used := connect(t, webLegacy, to, "")
	used.good("nothing")
	flood := newWeb(t, to.url+"/mcp", "")
	for range mcptest.Fewer(500) {
		if got, err := flood.send(http.MethodPost, webLegacy.initialize(), nil); err != nil || got.status != http.StatusOK {
			t.Fatalf("a session that is never used: got %d %.100s, %v", got.status, got.body, err)
		}
	}
	used.good("the flood")
	if live := to.sys.Census().Actors[actors.KindSession].Live; live > 25 {
		t.Errorf("%d sessions are alive", live)
	}
	for i := range 30 {
		p := newWeb(t, to.url+"/mcp", "")
		got, err := p.send(http.MethodPost, webLegacy.initialize(), nil)
		if p.session = got.header.Get("Mcp-Session-Id"); err != nil || i < 19 && got.status != http.StatusOK {
			t.Fatalf("session %d: got %d %.100s, %v", i, got.status, got.body, err)
		}
		if i >= 19 && (got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "") {
			t.Errorf("session %d: got %d %.100s, want 503 with Retry-After", i, got.status, got.body)
		}
		if got.status == http.StatusOK {
			_, _ = p.send(http.MethodPost, initialized, nil)
		}
	}
	used.good("the sessions")
	connect(t, webModern, to, "").good("the sessions")
}

// TestFloodOfOldSessions does so with HTTP+SSE (SECA-9).
func TestFloodOfOldSessions(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{MaxSessions: 10}})
	var open []*peer
	for range 10 {
		open = append(open, connect(t, surface{"sse", mcp.V2024_11_05}, to, ""))
	}
	w := newWeb(t, to.url+"/sse", "")
	resp, err := w.start(t.Context(), http.MethodGet, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: got %d, want 503", resp.StatusCode)
	}
	open[0].good("the flood")
	for _, p := range open[1:] {
		p.hang()
	}
	mcptest.Eventually(t, mcptest.Patience, "down to one session", func() bool { return to.sys.Census().Actors[actors.KindSession].Live == 1 })
	open[0].good("the others have gone")
}

// TestFloodOfCalls keeps more calls waiting than there may be: the next is refused at
// once, others are served, and there is room again when they have ended (ROB-2, SECA-9).
func TestFloodOfCalls(t *testing.T) {
	for _, s := range []surface{webLegacy, {"sse", mcp.V2024_11_05}, {"memory", mcp.V2025_11_25}, {"memory", mcp.V2026_07_28}} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			to := newTarget(t, &mcpserver.Options{Limits: mcpserver.Limits{MaxInFlight: 20}})
			p, other := connect(t, s, to, ""), connect(t, s, to, "")
			for i := range 20 {
				p.begin(p.call(fmt.Sprint(1000+i), "block", `{}`))
				<-to.begun
			}
			refused(t, "one too many", p.callTool("block", `{}`))
			other.good("the flood")
			for i := range 20 {
				p.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, 1000+i))
			}
			for range 20 {
				<-to.ended
			}
			mcptest.Eventually(t, mcptest.Patience, "served again", func() bool { return p.callTool("echo", `{"text":"good"}`).text() == "good" })
		})
	}
}

// TestFloodOfModernCalls is TestFloodOfCalls for requests that stand for themselves:
// their clients hang up (SHM-09).
func TestFloodOfModernCalls(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{MaxConcurrent: 20}})
	p := connect(t, webModern, to, "")
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 20 {
		text := p.call(fmt.Sprint(i), "block", `{}`)
		go func() {
			if resp, err := p.web.start(ctx, http.MethodPost, strings.NewReader(text), p.mirrored(text)); err == nil {
				resp.Body.Close()
			}
		}()
		<-to.begun
	}
	refused(t, "one too many", p.callTool("block", `{}`))
	cancel()
	for range 20 {
		<-to.ended
	}
	mcptest.Eventually(t, mcptest.Patience, "served again", func() bool { return p.callTool("echo", `{"text":"good"}`).text() == "good" })
}

// TestFloodOfBodies has one client send more large requests at once than it may: it is
// told so, others send theirs, and there is room again afterwards (SECA-9, ROB-3).
func TestFloodOfBodies(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	for _, s := range []surface{webLegacy, webModern, {"sse", mcp.V2024_11_05}} {
		ada, bob := connect(t, s, to, "ada"), connect(t, s, to, "bob")
		text := strings.Repeat("x", 3<<20)
		if s.way == "sse" { // they are answered at once: only half of a body takes its time
			for range 20 {
				conn := dial(t, to)
				path, _ := strings.CutPrefix(ada.web.url, to.url)
				_, _ = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nX-User: ada\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n"+text)
			}
		} else {
			for i := range 6 {
				ada.begin(ada.call(fmt.Sprint(100+i), "block", fmt.Sprintf(`{"text":%q}`, text)))
			}
		}
		mcptest.Eventually(t, mcptest.Patience, s.String()+": refused", func() bool {
			got, err := ada.postOf(ada.call("1", "echo", fmt.Sprintf(`{"text":%q}`, text)))
			return err == nil && got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") != ""
		})
		ada.good("the flood")
		if got, err := bob.postOf(bob.call("1", "echo", fmt.Sprintf(`{"text":%q}`, text))); err != nil || got.status >= 300 {
			t.Errorf("%v: another client: got %d %.100s, %v", s, got.status, got.body, err)
		}
		if s.way == "web" && !s.modern() {
			if got, err := ada.web.send(http.MethodDelete, "", nil); err != nil || got.status != http.StatusNoContent {
				t.Fatalf("DELETE: got %d, %v", got.status, err)
			}
			ada = connect(t, s, to, "ada")
			mcptest.Eventually(t, mcptest.Patience, s.String()+": served again", func() bool {
				got, err := ada.postOf(ada.call("1", "echo", fmt.Sprintf(`{"text":%q}`, text)))
				return err == nil && got.status == http.StatusOK
			})
		}
	}
}

// TestFloodOfListens opens more subscriptions than one client may have, and subscribes
// to more resources (SECA-9).
func TestFloodOfListens(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{Limits: mcpserver.Limits{MaxListens: 5, MaxSubscriptions: 10}, HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	for _, s := range []surface{webModern, {"memory", mcp.V2026_07_28}} {
		p, other := connect(t, s, to, "ada"), connect(t, s, to, "bob")
		for i := range 5 {
			p.begin(p.request(fmt.Sprint(1000+i), mcp.MethodListen, fmt.Sprintf(`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://%d","test://x%d","test://y%d"]}`, i, i, i)))
			if m := p.heard(mcptest.Patience); m.Method != mcp.NotificationListenAcknowledged {
				t.Fatalf("%v: got %s", s, m.raw)
			}
		}
		refused(t, s.String()+": one too many", p.ask(mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
		p.good("the flood")
		other.begin(other.request("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
		if m := other.heard(mcptest.Patience); m.Method != mcp.NotificationListenAcknowledged {
			t.Errorf("%v: another client got %s", s, m.raw)
		}
	}
	p := connect(t, webLegacy, to, "ada")
	for i := range 10 {
		if m := p.ask(mcp.MethodSubscribe, fmt.Sprintf(`"uri":"test://%d"`, i)); m.Error != nil {
			t.Fatalf("subscription %d: got %s", i, m.raw)
		}
	}
	refused(t, "a subscription too many", p.ask(mcp.MethodSubscribe, `"uri":"test://too-many"`))
	for i := range 1000 {
		if i%100 == 0 {
			to.server.ResourceUpdated("test://1")
		}
		p.say(p.request("1", mcp.MethodUnsubscribe, fmt.Sprintf(`"uri":"test://%d"`, i)))
	}
	p.good("the flood")
}

// TestFloodOfTasks begins more tasks than one may have, and than may be worked on
// (TASK-21, SECA-9).
func TestFloodOfTasks(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{Tasks: &mcpserver.TaskOptions{Working: 5}, HTTP: mcpserver.HTTPOptions{Authenticate: byHeader}})
	p, other := connect(t, webLegacy, to, "ada"), connect(t, webModern, to, "bob")
	for range 5 {
		if m := p.ask(mcp.MethodCallTool, `"name":"work","arguments":{},"task":{}`); m.Result == nil || m.Result.Task.TaskID == "" {
			t.Fatalf("got %s", m.raw)
		}
	}
	for range mcptest.Fewer(100) {
		refused(t, "one too many", p.ask(mcp.MethodCallTool, `"name":"work","arguments":{},"task":{}`))
	}
	p.good("the flood")
	if m := other.callTool("work", `{}`); m.Result == nil || m.Result.ResultType != mcp.ResultTask {
		t.Errorf("another's: got %s", m.raw)
	}
}

// TestFloodOfParked leaves more handlers waiting for an answer than are kept: the others
// run again when theirs comes, and nothing is lost (SECA-9).
func TestFloodOfParked(t *testing.T) {
	t.Parallel()
	to := newTarget(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{MaxParked: 8}})
	p := connect(t, webModern, to, "")
	var states []string
	for i := range mcptest.Fewer(300) {
		m := p.callTool("greet", fmt.Sprintf(`{"n":%d}`, i))
		if m.Result == nil || m.Result.ResultType != mcp.ResultInputRequired {
			t.Fatalf("got %s", m.raw)
		}
		states = append(states, m.Result.RequestState)
	}
	mcptest.Eventually(t, mcptest.Patience, "down to what may be kept", func() bool { return to.sys.Census().Actors[actors.KindInvocation].Live <= 8 })
	for i, state := range states {
		m := p.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":"greet","arguments":{"n":%d},"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}},"requestState":%q`, i, state))
		if m.text() != "Hello, Ada" {
			t.Fatalf("call %d: got %s", i, m.raw)
		}
	}
	if n := to.greeted.Load(); n != int64(len(states)) {
		t.Errorf("%d handlers went on, want %d", n, len(states))
	}
}

// TestFloodOfStreams opens more GET streams than a session may have.
func TestFloodOfStreams(t *testing.T) {
	t.Parallel()
	to := newTarget(t, nil)
	p, other := connect(t, webLegacy, to, ""), connect(t, webLegacy, to, "")
	statuses := map[int]int{}
	for range 50 {
		resp, err := p.web.start(t.Context(), http.MethodGet, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		statuses[resp.StatusCode]++
	}
	if statuses[http.StatusTooManyRequests] == 0 || statuses[http.StatusOK] == 0 || len(statuses) != 2 {
		t.Errorf("got statuses %v, want some of 200 and the rest 429", statuses)
	}
	p.good("the flood")
	other.good("the flood")
}

// TestUnreadStreams has clients that never read theirs: the server ends them, and goes
// on with the others (SECA-9, ROB-3).
func TestUnreadStreams(t *testing.T) {
	for _, s := range []surface{webLegacy, webModern, {"sse", mcp.V2024_11_05}} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			to := newTarget(t, nil)
			other := connect(t, s, to, "")
			for range mcptest.Fewer(10) {
				p := connect(t, s, to, "")
				p.unreadPost(to)
			}
			other.good("the unread streams")
		})
	}
}

// unreadPost asks for much, and reads nothing of it.
func (p *peer) unreadPost(to *target) {
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"talk","arguments":{"n":300},"_meta":{%s"progressToken":1}}}`, p.metaWithLogs())
	conn := dial(p.t, to)
	path, _ := strings.CutPrefix(p.web.url, to.url)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", path, len(text))
	for name, value := range p.mirrored(text) {
		head += name + ": " + value + "\r\n"
	}
	if p.web.session != "" {
		head += "Mcp-Session-Id: " + p.web.session + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"+text); err != nil {
		p.t.Fatal(err)
	}
}

// dial opens a connection that is closed when the test ends.
func dial(t testing.TB, to *target) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(to.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestSlowSenders sends headers and bodies slowly, half, or not at all, on many
// connections, while others are served (ROB-8, SECA-9). How long they may take is tested
// where time is virtual.
func TestSlowSenders(t *testing.T) {
	t.Parallel()
	to := newTarget(t, nil)
	before, _ := mcptest.Goroutines()
	const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	var conns []net.Conn
	for i := range mcptest.Fewer(200) {
		conn := dial(t, to)
		conns = append(conns, conn)
		sent := []string{"", "POST", head, head + "Content-Length: 100\r\n\r\n", head + "Content-Length: 4000000\r\n\r\n{", head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"js", head + "Transfer-Encoding: chunked\r\n\r\nFFFFFFF\r\n{"}[i%7]
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}
	for _, s := range surfaces {
		if s.way == "web" || s.way == "sse" {
			connect(t, s, to, "").good("the slow senders")
		}
	}
	for _, conn := range conns {
		conn.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	mcptest.Eventually(t, mcptest.Patience, "rid of their goroutines", func() bool { n, _ := mcptest.Goroutines(); return n < before+100 })
}

// TestBrokenHTTP says what is not HTTP, or smuggles a request behind another.
func TestBrokenHTTP(t *testing.T) {
	t.Parallel()
	to := newTarget(t, nil)
	call := webLegacy.call("1", "smuggled", `{}`)
	for _, text := range []string{
		"\x00\x01\x02\r\n\r\n", "GET\r\n\r\n", "POST /mcp HTTP/9.9\r\n\r\n", "POST /mcp HTTP/1.1\r\n\r\n", "POST /mcp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nXYZ\r\n" + call + "\r\n0\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
	} {
		conn := dial(t, to)
		if err := conn.SetDeadline(time.Now().Add(mcptest.Patience)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, text) }()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && resp.StatusCode < 400 {
			t.Errorf("%.60q: got %d", text, resp.StatusCode)
		}
		if netErr := net.Error(nil); errors.As(err, &netErr) && netErr.Timeout() {
			t.Errorf("%.60q: no answer, and the connection is open", text)
		}
	}
	if n := to.smuggled.Load(); n != 0 {
		t.Errorf("the tool has run %d times", n)
	}
	connect(t, webLegacy, to, "").good("what is not HTTP")
}
