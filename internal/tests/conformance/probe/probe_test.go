package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
)

// asProbe makes the test binary the program.
const asProbe = "TROUPE_TEST_PROBE"

func TestMain(m *testing.M) {
	if os.Getenv(asProbe) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// reply is any answer.
type reply struct {
	OK              bool       `json:"ok"`
	Error           *mcp.Error `json:"error"`
	ProtocolVersion string     `json:"protocolVersion"`
	ServerInfo      struct{ Name string }
	Capabilities    json.RawMessage `json:"capabilities"`
	Instructions    string          `json:"instructions"`
	Result          json.RawMessage `json:"result"`
	Notifications   []message       `json:"notifications"`
	Requests        []message       `json:"requests"`
}

// talk gives lines to the program and returns its answers, of which there must be one
// for each line and nothing else.
func talk(t *testing.T, lines ...string) []reply {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProbe+"=1", "TROUPE_TEST_SECRET=s3cret")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("the probe: %v\n%s", err, errs.Bytes())
	}
	var replies []reply
	scan := bufio.NewScanner(&out)
	scan.Buffer(nil, maxLine)
	for scan.Scan() {
		var r reply
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			t.Fatalf("the probe wrote %q: %v", scan.Text(), err)
		}
		replies = append(replies, r)
	}
	if len(replies) != len(lines) {
		t.Fatalf("got %d answers to %d lines:\n%+v\n%s", len(replies), len(lines), replies, errs.Bytes())
	}
	return replies
}

func TestBadLines(t *testing.T) {
	tests := []struct {
		line string
		code int64
	}{
		{"", mcp.CodeParse},
		{"nonsense", mcp.CodeParse},
		{"[]", mcp.CodeParse},
		{`{"op":7}`, mcp.CodeParse},
		{`{}`, mcp.CodeInvalidRequest},
		{`{"op":"dance"}`, mcp.CodeInvalidRequest},
		{`{"op":"request","method":"ping"}`, mcp.CodeInvalidRequest},
		{`{"op":"connect"}`, mcp.CodeInvalidParams},
		{`{"op":"connect","transport":"stdio"}`, mcp.CodeInvalidParams},
		{`{"op":"connect","transport":"http"}`, mcp.CodeInvalidParams},
		{`{"op":"connect","transport":"pigeon"}`, mcp.CodeInvalidParams},
		{`{"op":"connect","transport":"stdio","command":["x"],"protocolVersion":"1999-01-01"}`, codeLocal},
		{`{"op":"connect","transport":"stdio","command":["no-such-program-at-all"]}`, codeLocal},
		{`{"op":"connect","transport":"http","url":"http://127.0.0.1:1/mcp","timeoutMs":5000}`, codeLocal},
	}
	lines := make([]string, len(tests))
	for i, tt := range tests {
		lines[i] = tt.line
	}
	for i, r := range talk(t, append(lines, `{"op":"seen"}`, `{"op":"close"}`)...) {
		switch {
		case i >= len(tests):
			if !r.OK {
				t.Errorf("after the bad lines: got %+v", r)
			}
		case r.OK || r.Error == nil || r.Error.Code != tests[i].code || r.Error.Message == "":
			t.Errorf("%s: got %+v (error %+v), want code %d", tests[i].line, r, r.Error, tests[i].code)
		}
	}
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	r := bufio.NewReader(strings.NewReader("one\n" + long + "\ntwo"))
	if line, err := readLine(r); string(line) != "one\n" || err != nil {
		t.Errorf("readLine: got %q, %v, want one", line, err)
	}
	if line, err := readLine(r); err != errTooLong {
		t.Errorf("readLine: got %d bytes, %v, want %v", len(line), err, errTooLong)
	}
	if line, err := readLine(r); string(line) != "two" {
		t.Errorf("readLine: got %q, %v, want two", line, err)
	}
}

func connectLine(t *testing.T, fields map[string]any) string {
	t.Helper()
	line, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real MCP server")
	}
	replies := talk(t,
		connectLine(t, map[string]any{
			"op": "connect", "transport": "stdio", "command": peers.Require(t, peers.Everything), "protocolVersion": "2025-11-25",
			"env":         map[string]string{"ONLY": "this", "PATH": os.Getenv("PATH")},
			"roots":       []mcp.Root{{URI: "file:///somewhere", Name: "somewhere"}},
			"sampling":    map[string]any{"role": "assistant", "model": "canned", "content": map[string]string{"type": "text", "text": "Paris"}},
			"elicitation": map[string]any{"action": "accept", "content": map[string]string{"name": "Ada"}},
		}),
		`{"op":"connect","transport":"stdio","command":["x"]}`,
		`{"op":"request","method":"tools/call","params":{"name":"get-env"}}`,
		`{"op":"request","method":"tools/call","params":{"name":"trigger-long-running-operation","arguments":{"duration":0.1,"steps":2}},"progress":true}`,
		`{"op":"request","method":"tools/call","params":{"name":"trigger-sampling-request","arguments":{"prompt":"x"}}}`,
		`{"op":"request","method":"tools/call","params":{"name":"trigger-elicitation-request"}}`,
		`{"op":"request","method":"tools/call","params":{"name":"get-roots-list"}}`,
		`{"op":"request","method":"tools/call","params":{"name":"trigger-long-running-operation","arguments":{"duration":60,"steps":2}},"timeoutMs":100}`,
		`{"op":"request","method":"prompts/get","params":{"name":"no-such-prompt"}}`,
		`{"op":"seen"}`,
		`{"op":"close"}`,
		`{"op":"request","method":"ping"}`,
	)
	first := replies[0]
	if !first.OK || first.ProtocolVersion != "2025-11-25" || first.ServerInfo.Name != "mcp-servers/everything" || first.Instructions == "" || !strings.Contains(string(first.Capabilities), `"tools"`) {
		t.Fatalf("connect: got %+v (error %v)", first, first.Error)
	}
	if replies[1].OK {
		t.Error("a second connect: got ok")
	}
	if env := string(replies[2].Result); !strings.Contains(env, "ONLY") || strings.Contains(env, "s3cret") || strings.Contains(env, "HOME") {
		t.Errorf("the server's environment: got %s, want ONLY and PATH", env)
	}
	for i, part := range map[int]string{3: "completed", 4: "Paris", 5: `Ada`, 6: "file:///somewhere"} {
		if r := replies[i]; !r.OK || !strings.Contains(string(r.Result), part) {
			t.Errorf("answer %d: got %s (error %v), want %s in it", i, r.Result, r.Error, part)
		}
	}
	if r := replies[7]; r.OK || r.Error == nil || r.Error.Code != codeTimeout {
		t.Errorf("a request with a limit: got %+v (error %v), want %d", r, r.Error, codeTimeout)
	}
	if r := replies[8]; r.OK || r.Error == nil || r.Error.Code != mcp.CodeInvalidParams {
		t.Errorf("an unknown prompt: got %+v (error %v), want the server's error", r, r.Error)
	}
	saw := replies[9]
	var progress, asked []string
	for _, n := range saw.Notifications {
		if n.Method == mcp.NotificationProgress {
			progress = append(progress, string(n.Params))
		}
	}
	for _, q := range saw.Requests {
		asked = append(asked, q.Method)
	}
	if len(progress) != 2 || !strings.Contains(progress[0], `"progress":1`) {
		t.Errorf("seen: got the progress %q, want two reports", progress)
	}
	for _, method := range []string{mcp.MethodCreateMessage, mcp.MethodElicit, mcp.MethodListRoots} {
		if !strings.Contains(strings.Join(asked, " "), method) {
			t.Errorf("seen: got the requests %q, want %s among them", asked, method)
		}
	}
	if !replies[10].OK || replies[11].OK {
		t.Errorf("close and a request after it: got %+v, %+v", replies[10], replies[11])
	}
}

// TestHTTP: the other transports, and in 2026-07-28 what results ask for.
func TestHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP servers")
	}
	tests := []struct {
		server, listens, transport, version string
		tool                                string
		want                                string // in its result
		requests                            []string
	}{
		{peers.Everything, peers.StreamableHTTP, "http", "2025-11-25", "trigger-elicitation-request", "Ada", []string{mcp.MethodElicit}},
		{peers.Everything, peers.SSE, "sse", "2024-11-05", "trigger-sampling-request", "Paris", []string{mcp.MethodCreateMessage}},
		{peers.Modern, peers.StreamableHTTP, "http", "2026-07-28", "ask_all", "Paris; file:///somewhere", []string{mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodListRoots}},
		{peers.Modern, peers.StreamableHTTP, "http", "auto", "ask_url", "accept", []string{mcp.MethodElicit}},
	}
	for _, tt := range tests {
		t.Run(tt.transport+" "+tt.version, func(t *testing.T) {
			replies := talk(t,
				connectLine(t, map[string]any{
					"op": "connect", "transport": tt.transport, "url": peers.Listen(t, tt.server, tt.listens).URL, "protocolVersion": tt.version,
					"roots":       []mcp.Root{{URI: "file:///somewhere"}},
					"sampling":    map[string]any{"role": "assistant", "model": "canned", "content": map[string]string{"type": "text", "text": "Paris"}},
					"elicitation": map[string]any{"action": "accept", "content": map[string]string{"name": "Ada"}},
				}),
				connectLine(t, map[string]any{"op": "request", "method": "tools/call", "params": map[string]any{"name": tt.tool, "arguments": map[string]string{"prompt": "x"}}}),
				`{"op":"seen"}`,
			)
			if !replies[0].OK || tt.version != "auto" && replies[0].ProtocolVersion != tt.version {
				t.Fatalf("connect: got %+v (error %v)", replies[0], replies[0].Error)
			}
			if !strings.Contains(string(replies[1].Result), tt.want) {
				t.Errorf("%s: got %s (error %v), want %s in it", tt.tool, replies[1].Result, replies[1].Error, tt.want)
			}
			var asked []string
			for _, q := range replies[2].Requests {
				if q.Method == mcp.MethodListRoots && tt.server == peers.Everything {
					continue // it asks for them after a while, unprompted
				}
				asked = append(asked, q.Method)
			}
			if strings.Join(asked, " ") != strings.Join(tt.requests, " ") {
				t.Errorf("seen: got the requests %q, want %q", asked, tt.requests)
			}
		})
	}
}
