package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/internal/peers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// realServers is a configuration with three published servers at once.
func realServers(t *testing.T, h *home) string {
	t.Helper()
	server := func(env map[string]string, command []string) any {
		return map[string]any{"command": command[0], "args": command[1:], "env": env}
	}
	if err := os.MkdirAll(h.path("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.write(filepath.Join("folder", "notes.txt"), []byte("The cat is called Ferdinand.\n"))
	return h.config(map[string]any{
		"everything": server(nil, peers.Require(t, peers.Everything)),
		"filesystem": server(nil, peers.Require(t, peers.Filesystem, h.path("folder"))),
		"memory":     server(map[string]string{"MEMORY_FILE_PATH": h.path("memory.jsonl")}, peers.Require(t, peers.Memory)),
	})
}

const longTool = "everything__trigger-long-running-operation"

// resultsOf is a turn that answers with all that the tools have said.
func resultsOf() llmtest.Turn {
	return llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		return llmtest.Say(strings.Join(toolTexts(req), "\n"))
	})
}

// TestRealServers lets both kinds of models call tools of three real servers, several
// at once and over several turns, and looks at what has come of it.
func TestRealServers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP servers")
	}
	t.Parallel()
	for _, dialect := range []string{"openai", "ollama"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			config := realServers(t, h)
			script := llmtest.NewServer(
				llmtest.Calls(
					llmtest.Call(longTool, `{"duration":0.5,"steps":5}`),
					llmtest.Call("everything__echo", `{"message":"hello"}`),
					llmtest.Call("filesystem__read_text_file", map[string]string{"path": h.path("folder/notes.txt")}),
					llmtest.Call("memory__create_entities", `{"entities":[{"name":"Ferdinand","entityType":"cat","observations":["is written of in a note"]}]}`),
				),
				llmtest.Calls(
					llmtest.Call("filesystem__write_file", map[string]string{"path": h.path("folder/answer.txt"), "content": "Ferdinand is a cat."}),
					llmtest.Call("memory__search_nodes", `{"query":"Ferdinand"}`),
					llmtest.Call("everything__get-sum", `{"a":19,"b":23}`),
				),
				llmtest.Call("filesystem__list_directory", map[string]string{"path": h.path("folder")}),
				resultsOf(),
			)
			h.plays(dialect, script)

			s := h.start("run", "--yes", "--mcp-config", config, "--output-format", "stream-json", "Who is Ferdinand?")
			if code := s.end(); code != exitOK {
				t.Fatalf("exited with %d:\n%s", code, s.stderr.String())
			}
			checkStream(t, s.events)
			checkRequests(t, script)
			answer := string(s.events[len(s.events)-1].Result)
			for _, part := range []string{"Echo: hello", "The cat is called Ferdinand.", "is written of in a note", "42", "answer.txt", "Long running operation completed"} {
				if !strings.Contains(answer, part) {
					t.Errorf("the answer lacks %q: %s", part, answer)
				}
			}
			for file, part := range map[string]string{"folder/answer.txt": "Ferdinand is a cat.", "memory.jsonl": `"Ferdinand"`} {
				if data, err := os.ReadFile(h.path(file)); err != nil || !strings.Contains(string(data), part) {
					t.Errorf("%s: got %q, %v, want %q in it", file, data, err, part)
				}
			}
			if shown := h.must("runs", "show", "last"); strings.Contains(shown, "unknown") || strings.Count(shown, "tool.result") != 8 {
				t.Errorf("runs show: got\n%s", shown)
			}
			needProc(t)
			h.nobodyLeft(0)
		})
	}
}

// checkStream holds the events to what the script asks for: the first four calls are
// under way together, the long one tells how far it is.
func checkStream(t *testing.T, events []streamed) {
	t.Helper()
	underWay, most, results, progress := 0, 0, 0, 0
	for _, ev := range events {
		switch ev.Type {
		case "tools_listed":
			if len(ev.Absent) > 0 {
				t.Errorf("servers are absent: %s", ev.Absent)
			}
		case "tool_started":
			underWay++
			most = max(most, underWay)
		case "tool_result":
			underWay--
			results++
			if !ev.Made || strings.Contains(string(ev.Result), `"isError":true`) {
				t.Errorf("%s: got %s", ev.Tool, ev.Result)
			}
		case "tool_progress":
			if ev.Tool != longTool || ev.Total != 5 || ev.Done <= 0 || ev.Done > 5 {
				t.Errorf("progress: got %+v", ev)
			}
			progress++
		}
	}
	if most != 4 || results != 8 || progress == 0 || underWay != 0 {
		t.Errorf("got %d calls under way at most, %d results, %d progress reports, %d without an end; want 4, 8, some, 0", most, results, progress, underWay)
	}
}

// checkRequests holds the requests to what a model needs: the tools of all servers,
// and a result for each call, in the order of the calls.
func checkRequests(t *testing.T, script *llmtest.Server) {
	t.Helper()
	chats := script.Chats()
	if len(chats) != 4 || len(script.Failures()) > 0 {
		t.Fatalf("got %d requests, want 4; failures: %q", len(chats), script.Failures())
	}
	for _, name := range []string{"everything__echo", "filesystem__read_text_file", "memory__read_graph"} {
		if !slices.ContainsFunc(chats[0].Request.Tools, func(tool llm.Tool) bool { return tool.Name == name }) {
			t.Errorf("the model does not know of %s", name)
		}
	}
	texts := toolTexts(chats[1].Request)
	wants := []string{"Long running", "Echo: hello", "Ferdinand", "Ferdinand"}
	if !slices.EqualFunc(texts, wants, strings.Contains) {
		t.Errorf("the results of the first turn: got %q, want %q in them", texts, wants)
	}
}

// TestKilledServer: a server that is killed in the middle of a call ends that call
// with a clear error for the model. It is started again, and the next call works;
// other servers never notice.
func TestKilledServer(t *testing.T) {
	needProc(t)
	if testing.Short() {
		t.Skip("starts real MCP servers")
	}
	t.Parallel()
	h := newHome(t)
	config := realServers(t, h)
	script := llmtest.NewServer(
		llmtest.Calls(
			llmtest.Call(longTool, `{"duration":300,"steps":3000}`),
			llmtest.Call("memory__read_graph", `{}`),
		),
		llmtest.Calls(
			llmtest.Call("everything__echo", `{"message":"again"}`),
			llmtest.Call("memory__read_graph", `{}`),
		),
		resultsOf(),
	)
	h.plays("openai", script)
	s := h.start("run", "--yes", "--mcp-config", config, "--output-format", "stream-json", "Take your time.")
	call := s.until("progress", func(ev *streamed) bool { return ev.Type == "tool_progress" })
	first := h.find("server-everything")
	other := h.find("server-memory")
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	lost := s.until("a result", func(ev *streamed) bool { return ev.Type == "tool_result" && ev.Key == call.Key })
	if !lost.Unknown || !strings.Contains(string(lost.Result), "killed") {
		t.Errorf("the killed call: got %+v with %s, want unknown and why", lost, lost.Result)
	}
	s.until("the next call", func(ev *streamed) bool { return ev.Type == "tool_result" && ev.Tool == "everything__echo" })
	if again := h.find("server-memory"); again.Pid != other.Pid {
		t.Errorf("the other server: got process %d, was %d", again.Pid, other.Pid)
	}
	if code := s.end(); code != exitOK {
		t.Fatalf("exited with %d:\n%s", code, s.stderr.String())
	}
	chats := script.Chats()
	if len(chats) != 3 {
		t.Fatalf("got %d requests, want 3: %q", len(chats), script.Failures())
	}
	texts := toolTexts(chats[2].Request)
	if len(texts) != 4 || !strings.Contains(texts[0], "killed") || !strings.Contains(texts[2], "Echo: again") {
		t.Errorf("what the model was told: got %q", texts)
	}
	shown := h.must("runs", "show", "last")
	if !strings.Contains(shown, "tool.unknown") {
		t.Errorf("runs show: got\n%s", shown)
	}
	h.nobodyLeft(0)
}

// TestSignals: SIGINT and SIGTERM end a run in the middle of a call, and all that it
// has started (ROB-7). The exit codes say which it was.
func TestSignals(t *testing.T) {
	needProc(t)
	t.Parallel()
	tests := []struct {
		signal syscall.Signal
		code   int
	}{
		{syscall.SIGINT, exitInterrupt},
		{syscall.SIGTERM, exitTerminated},
	}
	for _, tt := range tests {
		t.Run(tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.plays("openai", llmtest.NewServer(llmtest.Call("effects__hang", `{}`)))
			s := h.start("run", "--yes", "--mcp", "effects lines.txt", "--output-format", "stream-json", "--run-id", "stopped", "Wait.")
			s.until("progress", func(ev *streamed) bool { return ev.Type == "tool_progress" })
			if err := s.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			if code := s.end(); code != tt.code {
				t.Errorf("exited with %d, want %d:\n%s", code, tt.code, s.stderr.String())
			}
			h.nobodyLeft(0)
			if last := s.events[len(s.events)-1]; last.Type != "run_finished" || last.State != "cancelled" {
				t.Errorf("the last event: got %+v", last)
			}
			if shown := h.must("runs", "show", "stopped"); !strings.Contains(shown, "run stopped: cancelled") {
				t.Errorf("runs show: got\n%s", shown)
			}
		})
		t.Run("mcp call, "+tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			s := h.start("mcp", "call", "--mcp", "fakeserver mute", "--protocol", "legacy", "echo")
			waitFor(t, "the server", func() bool { return len(h.processes()) == 2 })
			if err := s.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			if code := s.end(); code != tt.code {
				t.Errorf("exited with %d, want %d:\n%s", code, tt.code, s.stderr.String())
			}
			h.nobodyLeft(0)
		})
	}
}
