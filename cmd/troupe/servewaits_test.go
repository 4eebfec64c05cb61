package main

import (
	"bufio"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// A call of an agent that waits for a human says where to answer, if the client cannot be
// asked; once that is done the call comes to its end.
func TestCallOfAnAgentThatWaits(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Call("effects__append", `{"text":"one"}`), resultsOf()))
	s := h.serveHTTP("--mcp", "effects lines.txt")
	cmd := h.command("mcp", "call", "--mcp", "s="+s.url+"/mcp", "main", `{"prompt":"Write."}`)
	var answer strings.Builder
	cmd.Stdout = &answer
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answerWith := regexp.MustCompile(`this client cannot be asked; answer with: troupe (inbox answer \S+)`)
	var lines []string
	answered := false
	for in := bufio.NewScanner(said); in.Scan(); {
		lines = append(lines, in.Text())
		if m := answerWith.FindStringSubmatch(in.Text()); m != nil && !answered {
			answered = true
			waitFor(t, "the question", func() bool { return strings.Contains(h.must("inbox", "ls"), "pending") })
			h.must(append(strings.Fields(m[1]), "--accept")...)
		}
	}
	if err := cmd.Wait(); err != nil || !answered || !strings.Contains(answer.String(), "appended one") {
		t.Errorf("got %v and the answer %q; stderr:\n%s", err, answer.String(), strings.Join(lines, "\n"))
	}
	if code := s.end(t); code != env.ExitOK {
		t.Errorf("troupe serve exited with %d", code)
	}
}

// A port that is in use is found before a server starts.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, command := range []string{"serve", "worker"} {
		h := newHome(t)
		h.plays("openai", llmtest.NewServer())
		h.env = append(h.env, "TROUPE_WORKER_TOKEN=0123456789abcdef")
		out := h.run(command, "--http", l.Addr().String(), "--mcp", "s=sh -c 'echo started > started'")
		if out.code != env.ExitUsage || !strings.Contains(out.stderr, "address already in use") {
			t.Errorf("troupe %s: exited with %d: %s", command, out.code, out.stderr)
		}
		if _, err := os.Stat(h.path("started")); err == nil {
			t.Errorf("troupe %s: a server was started", command)
		}
	}
}
