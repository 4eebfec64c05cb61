package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// served is "troupe serve --http".
type served struct {
	cmd *exec.Cmd
	url string // of the program, without a path
	out io.Reader
}

// serveHTTP starts it at a port that is free, and returns once it listens.
func (h *home) serveHTTP(args ...string) *served {
	h.t.Helper()
	s := &served{cmd: h.command(append([]string{"serve", "--http", "127.0.0.1:0"}, args...)...)}
	said, err := s.cmd.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if s.out, err = s.cmd.StdoutPipe(); err != nil {
		h.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	address := regexp.MustCompile(`at (http://\S+)/mcp`)
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			s.url = m[1]
			break
		}
	}
	if s.url == "" {
		h.t.Fatal("troupe serve does not say where it listens")
	}
	go func() { _, _ = io.Copy(io.Discard, said) }() // ends with the process
	return s
}

// TestServeMetrics: what operators ask for is at an address of its own, and never where clients are served; one that others
// can reach wants a token (SECA-1).
func TestServeMetrics(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "OPENAI_API_KEY=none", "OPENAI_BASE_URL=http://127.0.0.1:1", "TROUPE_MODEL=openai/x")
	address := freeAddress(t)
	s := h.serveHTTP("--metrics", address)
	get := func(at, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(out)
	}
	for _, path := range []string{"/metrics", "/readyz"} {
		if code, out := get(s.url+path, ""); code != http.StatusNotFound {
			t.Errorf("where clients are served, %s: got %d %s", path, code, out)
		}
	}
	if code, out := get("http://"+address+"/metrics", ""); code != http.StatusOK || !strings.Contains(out, "\ntroupe_store_up 1\n") || !strings.Contains(out, "\ntroupe_serve_clients 0\n") {
		t.Errorf("metrics: got %d %.2000s", code, out)
	}
	if code, out := get("http://"+address+"/readyz", ""); code != http.StatusOK || !strings.Contains(out, `"ready"`) {
		t.Errorf("readyz: got %d %s", code, out)
	}
	if code, _ := get("http://"+address+"/healthz", ""); code != http.StatusOK {
		t.Errorf("healthz: got %d", code)
	}
	if code, _ := get("http://"+address+"/metrics", "evil.example"); code != http.StatusMisdirectedRequest {
		t.Errorf("by another name: got %d", code)
	}
	if code := s.end(t); code != 0 {
		t.Errorf("after SIGTERM: got %d", code)
	}
	if out := h.run("serve", "--http", "127.0.0.1:0", "--metrics", "0.0.0.0:0"); out.code != 2 || !strings.Contains(out.stderr, "TROUPE_METRICS_TOKEN") {
		t.Errorf("an address that others can reach: got %d %s", out.code, out.stderr)
	}
}

// end sends SIGTERM and returns the exit code.
func (s *served) end(t *testing.T) int {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(s.out); err != nil || len(text) > 0 { // STDIO-03
		t.Errorf("stdout: got %q, %v, want nothing", text, err)
	}
	err := s.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *served) dial(t *testing.T, protocol, token string, o *mcpclient.Options) *mcpclient.Client {
	t.Helper()
	server := mcpclient.Server{Name: "served", URL: s.url + "/mcp", Protocol: protocol}
	if token != "" {
		server.Headers = map[string]string{"Authorization": "Bearer " + token}
	}
	c, err := mcpclient.Dial(t.Context(), server, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func get(t *testing.T, url string, headers ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// One URL serves clients of both eras (ERA-12) who have the token, and SIGTERM ends it in
// order.
func TestServeHTTP(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := h.serveHTTP("--no-store", "--expose", "tools", "--mcp", "bank=asker", "--token", "s3cret-of-16-chars")
	if status, body := get(t, s.url+"/healthz"); status != http.StatusOK || body != "{\"status\":\"ok\"}\n" {
		t.Errorf("GET /healthz: got %d %q, want 200 and ok", status, body)
	}
	if status, _ := get(t, s.url+"/mcp", "Accept", "text/event-stream"); status != http.StatusUnauthorized {
		t.Errorf("GET without a token: got %d, want 401", status)
	}
	if status, _ := get(t, s.url+"/mcp", "Host", "evil.example"); status != http.StatusForbidden { // SHL-02
		t.Errorf("GET for another host: got %d, want 403", status)
	}
	for _, protocol := range []string{"legacy", "modern"} {
		o := &mcpclient.Options{}
		o.Human = mcpclient.HumanFunc(func(_ context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error) {
			if want := "bank asks: Who are you?"; a.Message != want { // SECA-34
				t.Errorf("question: got %q, want %q", a.Message, want)
			}
			return &mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"name": json.RawMessage(`"Ada"`)}}, nil
		})
		c := s.dial(t, protocol, "s3cret-of-16-chars", o)
		res, err := c.CallTool(t.Context(), "bank__ask", json.RawMessage(`{}`), nil)
		if err != nil {
			t.Fatalf("%s: %v", protocol, err)
		}
		if text := res.Content.Text(); !strings.Contains(text, `"name":"Ada"`) {
			t.Errorf("%s: got %q, want the answer with Ada", protocol, text)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if code := s.end(t); code != 0 {
		t.Errorf("after SIGTERM: got exit code %d, want 0", code)
	}
	h.noProcessLeft(10 * time.Second)
}

// A call under way ends in its own time after SIGTERM, and no new one is taken.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	gate := llmtest.NewGate()
	h.plays("openai", llmtest.NewServer(llmtest.Join(llmtest.Hold(gate), llmtest.Say("in the end"))))
	s := h.serveHTTP("--no-store")
	c := s.dial(t, "legacy", "", nil)
	over := make(chan string, 1)
	go func() {
		res, err := c.CallTool(t.Context(), "main", json.RawMessage(`{"prompt":"go"}`), nil)
		if err != nil {
			over <- err.Error()
			return
		}
		over <- res.Content.Text()
	}()
	<-gate.Reached()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end to begin", func() bool {
		status, _ := get(t, s.url+"/healthz")
		return status == http.StatusServiceUnavailable
	})
	gate.Open()
	if got := <-over; got != "in the end" {
		t.Errorf("the call under way: got %q, want its answer", got)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: got %v, want exit code 0", err)
	}
}

// A client at stdin that hangs up ends the program, and what it has started.
func TestServeStdioHangUp(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cmd := h.command("serve", "--stdio", "--no-store", "--expose", "tools", "--mcp", "one=effects lines.txt")
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("troupe serve: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if !json.Valid([]byte(line)) { // STDIO-03
			t.Errorf("stdout has %q, which is no message", line)
		}
	}
	if !strings.Contains(string(out), `"one__append"`) {
		t.Errorf("tools/list: got %s, want one__append", out)
	}
	h.noProcessLeft(10 * time.Second)
}

// The commands and files of the guide work as they stand.
func TestServeGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	shell, files, lines := blocks(string(text), "sh"), blocks(string(text), "yaml"), blocks(string(text), "json")
	if len(shell) != 2 || len(files) != 1 || len(lines) != 1 {
		t.Fatalf("the guide has %d blocks of shell, %d of YAML and %d of JSON, want 2, 1 and 1", len(shell), len(files), len(lines))
	}
	if _, err := config.Parse(config.FileName, []byte(files[0]), false); err != nil {
		t.Errorf("the configuration file: %v", err)
	}
	h := newHome(t)
	script := llmtest.NewServer(llmtest.Say("Red, green, blue."))
	h.plays("openai", script)
	args, found := strings.CutPrefix(strings.TrimSpace(standIns.Replace(shell[0])), "troupe serve --http 127.0.0.1:8080 ")
	if !found {
		t.Fatalf("the guide starts %q", shell[0])
	}
	s := h.serveHTTP(strings.Split(strings.ReplaceAll(args, `"`, ""), " ")...)
	want := []string{"everything__ask", "Red, green, blue.", `{"status":"ok"}`}
	for i, line := range strings.Split(strings.TrimSpace(shell[1]), "\n") {
		if strings.HasPrefix(line, "curl") {
			if _, err := exec.LookPath("curl"); err != nil {
				continue
			}
		}
		cmd := h.command()
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", strings.ReplaceAll(line, "http://127.0.0.1:8080", s.url)}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want[i]) {
			t.Errorf("%s: got %q, %v, want %q", line, out, err, want[i])
		}
	}
	if code := s.end(t); code != 0 {
		t.Errorf("after SIGTERM: got exit code %d, want 0", code)
	}

	h.write("servers.json", []byte(`{"mcpServers": {"notes": {"command": "effects", "args": ["lines.txt"]}}}`))
	if out := h.must("mcp", "tools", "--mcp-config", h.write("client.json", []byte(lines[0]))); !strings.Contains(out, "notes__append") {
		t.Errorf("the client's configuration: got %s, want notes__append", out)
	}
}
