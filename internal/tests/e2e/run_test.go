package e2e

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// longest bounds a "troupe run" of these tests.
const longest = time.Minute

// plays starts a model server with a script, in a dialect.
func plays(t *testing.T, home *peers.Troupe, dialect string, script *llmtest.Server) {
	web := httptest.NewServer(script)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	address := map[string]string{"openai": "OPENAI_BASE_URL=", "ollama": "OLLAMA_HOST="}[dialect] + web.URL
	home.Env = append(home.Env, "TROUPE_MODEL="+dialect+"/scripted", address)
}

// runHome returns a home for the program and the name of a configuration of three
// published servers.
func runHome(t *testing.T, troupe string) (home *peers.Troupe, config string) {
	t.Helper()
	home = &peers.Troupe{Program: troupe, Home: t.TempDir()}
	t.Cleanup(func() {
		for _, pid := range home.Processes() { // of a test that failed
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	server := func(env map[string]string, command []string) any {
		return map[string]any{"command": command[0], "args": command[1:], "env": env}
	}
	folder := filepath.Join(home.Home, "folder")
	data, err := mcp.Marshal(map[string]any{"mcpServers": map[string]any{
		"everything": server(nil, peers.Require(t, peers.Everything)),
		"filesystem": server(nil, peers.Require(t, peers.Filesystem, folder)),
		"memory":     server(map[string]string{"MEMORY_FILE_PATH": filepath.Join(home.Home, "memory.jsonl")}, peers.Require(t, peers.Memory)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(home.Home, "servers.json")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{config: data, filepath.Join(folder, "notes.txt"): []byte("The cat is called Ferdinand.\n")} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home, config
}

// journal returns what "troupe runs show last" prints.
func journal(t *testing.T, home *peers.Troupe) string {
	t.Helper()
	out, err := home.Run(t.Context(), "runs", "show", "last")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// needProc skips a test that finds processes in /proc, which only Linux has.
func needProc(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("it looks for processes in /proc")
	}
}

const longTool = "everything__trigger-long-running-operation"

// resultsOf is a turn that answers with all that the tools have said.
func resultsOf() llmtest.Turn {
	return llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		return llmtest.Say(strings.Join(allResults(req), "\n"))
	})
}

// allResults returns the texts of the tools' results in a request, the oldest first.
func allResults(req *llm.Request) []string {
	var out []string
	for _, m := range req.Messages {
		for _, c := range m.Content {
			if r, ok := c.(*mcp.ToolResultContent); ok {
				out = append(out, r.Content.Text())
			}
		}
	}
	return out
}

// TestRealServers lets both kinds of models call tools of three real servers, several
// at once and over several turns, and looks at what has come of it.
func TestRealServers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP servers")
	}
	t.Parallel()
	troupe := peers.RequireTroupe(t)
	for _, dialect := range []string{"openai", "ollama"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			home, config := runHome(t, troupe)
			script := llmtest.NewServer(
				llmtest.Calls(
					llmtest.Call(longTool, `{"duration":0.5,"steps":5}`),
					llmtest.Call("everything__echo", `{"message":"hello"}`),
					llmtest.Call("filesystem__read_text_file", map[string]string{"path": filepath.Join(home.Home, "folder/notes.txt")}),
					llmtest.Call("memory__create_entities", `{"entities":[{"name":"Ferdinand","entityType":"cat","observations":["is written of in a note"]}]}`),
				),
				llmtest.Calls(
					llmtest.Call("filesystem__write_file", map[string]string{"path": filepath.Join(home.Home, "folder/answer.txt"), "content": "Ferdinand is a cat."}),
					llmtest.Call("memory__search_nodes", `{"query":"Ferdinand"}`),
					llmtest.Call("everything__get-sum", `{"a":19,"b":23}`),
				),
				llmtest.Call("filesystem__list_directory", map[string]string{"path": filepath.Join(home.Home, "folder")}),
				resultsOf(),
			)
			plays(t, home, dialect, script)

			s := home.Start(t, longest, "--yes", "--mcp-config", config, "Who is Ferdinand?")
			if code := s.End(); code != 0 {
				t.Fatalf("exited with %d:\n%s", code, s.Stderr.String())
			}
			checkStream(t, s.Events)
			checkRequests(t, script)
			answer := string(s.Events[len(s.Events)-1].Result)
			for _, part := range []string{"Echo: hello", "The cat is called Ferdinand.", "is written of in a note", "42", "answer.txt", "Long running operation completed"} {
				if !strings.Contains(answer, part) {
					t.Errorf("the answer lacks %q: %s", part, answer)
				}
			}
			for file, part := range map[string]string{"folder/answer.txt": "Ferdinand is a cat.", "memory.jsonl": `"Ferdinand"`} {
				if data, err := os.ReadFile(filepath.Join(home.Home, file)); err != nil || !strings.Contains(string(data), part) {
					t.Errorf("%s: got %q, %v, want %q in it", file, data, err, part)
				}
			}
			if shown := journal(t, home); strings.Contains(shown, "unknown") || strings.Count(shown, "tool.result") != 8 {
				t.Errorf("runs show: got\n%s", shown)
			}
			needProc(t)
			home.CheckEnded(t)
		})
	}
}

// checkStream holds the events to what the script asks for: the first four calls are
// under way together, the long one tells how far it is.
func checkStream(t *testing.T, events []peers.Event) {
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
	// Of the four calls of the first turn one takes half a second; a quick one may end before the last has begun.
	if most < 2 || most > 4 || results != 8 || progress == 0 || underWay != 0 {
		t.Errorf("got %d calls under way at most, %d results, %d progress reports, %d without an end; want 2 to 4, 8, some, 0", most, results, progress, underWay)
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
	texts := allResults(chats[1].Request)
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
	home, config := runHome(t, peers.RequireTroupe(t))
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
	plays(t, home, "openai", script)
	s := home.Start(t, longest, "--yes", "--on-unknown", "tell", "--mcp-config", config, "Take your time.")
	call := s.Until("progress", func(ev *peers.Event) bool { return ev.Type == "tool_progress" })
	first := home.Find(t, "server-everything")
	other := home.Find(t, "server-memory")
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	lost := s.Until("a result", func(ev *peers.Event) bool { return ev.Type == "tool_result" && ev.Key == call.Key })
	if !lost.Unknown || !strings.Contains(string(lost.Result), "killed") {
		t.Errorf("the killed call: got %+v with %s, want unknown and why", lost, lost.Result)
	}
	s.Until("the next call", func(ev *peers.Event) bool { return ev.Type == "tool_result" && ev.Tool == "everything__echo" })
	if again := home.Find(t, "server-memory"); again.Pid != other.Pid {
		t.Errorf("the other server: got process %d, was %d", again.Pid, other.Pid)
	}
	if code := s.End(); code != 0 {
		t.Fatalf("exited with %d:\n%s", code, s.Stderr.String())
	}
	chats := script.Chats()
	if len(chats) != 3 {
		t.Fatalf("got %d requests, want 3: %q", len(chats), script.Failures())
	}
	texts := allResults(chats[2].Request)
	if len(texts) != 4 || !strings.Contains(texts[0], "killed") || !strings.Contains(texts[2], "Echo: again") {
		t.Errorf("what the model was told: got %q", texts)
	}
	shown := journal(t, home)
	if !strings.Contains(shown, "tool.unknown") {
		t.Errorf("runs show: got\n%s", shown)
	}
	home.CheckEnded(t)
}
