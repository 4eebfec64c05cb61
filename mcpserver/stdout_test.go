package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/mcp"
)

// STDIO-03, STDIO-04, ROB-2: of a real process, whatever it is sent and whatever its tools do,
// nothing but messages is on standard output, one a line; its logs are text on standard
// error.
func TestStandardOutput(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), role+"=loud")
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, asked: make(map[string]string), check: official(t, mcp.V2025_11_25), version: mcp.V2025_11_25}
	answers := make(map[string]bool)
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if line == "" && err == io.EOF {
				return
			}
			var m struct {
				JSONRPC string
				ID      json.RawMessage
			}
			if err != nil || json.Unmarshal([]byte(line), &m) != nil || m.JSONRPC != "2.0" {
				t.Errorf("standard output: got %q, %v, want a message", clip(line), err)
				return
			}
			p.checkMessage(line)
			answers[string(m.ID)] = true
		}
	}()
	const v = mcp.V2025_11_25
	for _, line := range []string{
		"no JSON", "", "\xff\xfe", `{"jsonrpc":"2.0","id":1}`, call(v, "early", "echo", `{"text":"x"}`),
		initialize(v), initialized, initialized, initialize(v),
		call(v, "panics", "panic", `{}`), call(v, "fails", "fail", `{}`), call(v, "none", "no such tool", `{}`),
		call(v, "logs", "log", `{"text":"line\nline"}`), call(v, "echoes", "echo", `{"text":"a\nb"}`),
		`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","method":"no/such"}`, `[]`, strings.Repeat("x", 5<<20),
		call(v, "last", "fail", `{}`),
	} {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	in.Close()
	<-read
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	for _, id := range []string{"init", "panics", "fails", "none", "logs", "echoes", "last"} {
		if !answers[`"`+id+`"`] {
			t.Errorf("there is no answer to %q", id)
		}
	}
	if text := log.String(); !strings.Contains(text, "hunter2") || !utf8.ValidString(text) {
		t.Errorf("standard error: got %q, want the log of a panic", clip(text))
	}
}
