package models

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/modelservers"
	"github.com/troupe-dev/troupe/internal/tests/modelservers/tinygguf"
)

// The exit codes of the program that are looked at here.
const (
	exitOK          = 0
	exitLimit       = 4
	exitUnreachable = 6
	exitInterrupt   = 130
)

// quoted is a text as JSON.
func quoted(t *testing.T, s string) string {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// slowTool takes a second: long enough for the calls beside it to end before it does.
const slowTool = "everything__trigger-long-running-operation"

// worker is a model that uses tools of real servers: one call, whose result leads to four
// at once, the slow one first, whose results lead to one more, and then the answer.
func worker(t *testing.T, u *user) *tinygguf.Spec {
	t.Helper()
	spec := modelservers.Behaviour()
	spec.Context = 32_768 // which the schemas of all tools fit in
	spec.Routes["#begin"] = "I begin.\n" + modelservers.Call("everything__echo", `{"message":"four at once: #four"}`)
	spec.Routes["#four"] = modelservers.Calls(
		modelservers.Call(slowTool, `{"duration":1,"steps":1}`),
		modelservers.Call("filesystem__read_text_file", `{"path":`+quoted(t, u.path("notes.txt"))+`}`),
		modelservers.Call("everything__get-sum", `{"a":19,"b":23}`),
		modelservers.Call("everything__echo", `{"message":"one more: #more"}`),
	)
	spec.Routes["#more"] = modelservers.Call("filesystem__write_file", `{"path":`+quoted(t, u.path("answer.txt"))+`,"content":"Ferdinand is 42."}`)
	return spec
}

// TestRun: the program works with tools of real MCP servers, one and several at once, over
// four turns of a real model. Calls count from when their bytes leave, so quick ones may end
// before the next begins; only the slow one shows that they run at once.
func TestRun(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		u := &user{t: t, dir: t.TempDir()}
		s := b.scripted(t, worker(t, u))
		u.env = s.env()
		u.write("notes.txt", "The cat is called Ferdinand.\n")
		p := u.run("--yes", "--mcp-config", u.servers(), "Please #begin.")
		p.check(exitOK, "finished")

		results := map[string][]string{}
		turn := 1
		var ended []string // the tools, in the order in which their calls ended
		for _, ev := range p.events {
			switch ev.Type {
			case "model_turn":
				turn = ev.Turn
				if ev.Usage.Input == 0 || ev.Usage.Output == 0 || ev.Usage.Estimated {
					t.Errorf("turn %d: got usage %+v", ev.Turn, ev.Usage)
				}
			case "tool_result":
				ended = append(ended, ev.Tool)
				results[ev.Tool] = append(results[ev.Tool], string(ev.Result))
				if !ev.Made || strings.Contains(string(ev.Result), `"isError":true`) {
					t.Errorf("%s: got %s", ev.Tool, ev.Result)
				}
			}
		}
		if turn != 4 {
			t.Errorf("got %d turns, want 4", turn)
		}
		// Calls of one turn run at once: the quick ones end before the slow one, which was asked for first.
		if len(ended) != 6 || ended[4] != slowTool {
			t.Errorf("got the ends %q, want the fifth of six to be that of %s", ended, slowTool)
		}
		for tool, want := range map[string]string{
			"everything__echo": "one more: #more", "everything__get-sum": "42", "filesystem__read_text_file": "Ferdinand", "filesystem__write_file": "answer.txt",
		} {
			if got := results[tool]; len(got) == 0 || !strings.Contains(got[len(got)-1], want) {
				t.Errorf("%s: got %q, want %q", tool, got, want)
			}
		}
		if data, err := os.ReadFile(u.path("answer.txt")); err != nil || string(data) != "Ferdinand is 42." {
			t.Errorf("the file that the model wrote: got %q, %v", data, err)
		}
		text, pieces := p.joined("text")
		if !strings.HasPrefix(text, "I begin.") || !strings.HasSuffix(text, modelservers.Behaviour().Tool) || pieces < 3 {
			t.Errorf("the text: got %q in %d pieces", text, pieces)
		}
	})
}

// TestRunThinks: the thoughts are streamed apart from the answer, which has none.
func TestRunThinks(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		p := newUser(t, b.tiny(t)).run("#think")
		p.check(exitOK, "finished")
		thought, _ := p.joined("thinking")
		if text, _ := p.joined("text"); strings.TrimSpace(thought) != "Let me ponder this." || text != "It is 42." {
			t.Errorf("got %q, thinking %q", text, thought)
		}
	})
}

// TestRunStops: a run whose model would never end is interrupted in the middle of its
// answer; the server's only slot is free for the next one.
func TestRunStops(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		b.leaving(t, func() error {
			s, _ := b.alone(t, 8)
			u := newUser(t, s)
			p := u.start("#forever")
			p.pieces(10)
			p.interrupt()
			p.end()
			p.check(exitInterrupt, "cancelled")

			u.wait = answered
			p = u.run("Hello")
			if last := p.last(); last.Type != "run_finished" {
				return fmt.Errorf("the next run was not answered in time; its last event is %+v", last)
			}
			p.check(exitOK, "finished")
			if text, pieces := p.joined("text"); text != modelservers.Behaviour().Default || pieces < 1 { // a busy machine gathers pieces
				t.Errorf("the next run: got %q in %d pieces", text, pieces)
			}
			return nil
		})
	})
}

// TestRunTokens: a run may spend N tokens, and its model makes calls without end. It stops
// within one turn of N.
func TestRunTokens(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		spec := modelservers.Behaviour()
		spec.Context = 32_768 // which the schemas of all tools fit in
		spec.Routes["#again"] = modelservers.Call("everything__echo", `{"message":"and #other"}`)
		spec.Routes["#other"] = modelservers.Call("everything__get-sum", `{"a":1,"b":2}`)
		spec.Tool = modelservers.Call("everything__echo", `{"message":"and #again"}`)
		u := newUser(t, b.scripted(t, spec))
		const limit = 8000
		p := u.run("--yes", "--mcp-config", u.servers(), "--max-tokens-total", "8000", "#again")
		p.check(exitLimit, "limited")
		spent, dearest, turns := 0, 0, 0
		for _, ev := range p.events {
			if ev.Type == "model_turn" {
				turns++
				spent += ev.Usage.Input + ev.Usage.Output
				dearest = max(dearest, ev.Usage.Input+ev.Usage.Output)
			}
		}
		if turns < 2 || spent > limit+dearest {
			t.Errorf("got %d tokens in %d turns, the dearest of %d, want at most one turn beyond %d", spent, turns, dearest, limit)
		}
		cuts := 0
		for _, ev := range p.events {
			if ev.Type == "history_cut" {
				cuts++
			}
		}
		t.Logf("spent %d of %d in %d turns, the dearest of %d, %d cuts", spent, limit, turns, dearest, cuts)
	})
}

// TestRunEndless: one answer without end is cut by what is left of the run's tokens.
func TestRunEndless(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		p := newUser(t, b.tiny(t)).run("--max-tokens-total", "1000", "#forever")
		spent := 0
		for _, ev := range p.events {
			spent += ev.Usage.Input + ev.Usage.Output
		}
		if last := p.last(); last.Type != "run_finished" || last.State == "failed" || spent > 1000 {
			t.Errorf("exited with %d, spent %d of 1000, the last event is %+v:\n%s", p.ProcessState.ExitCode(), spent, last, p.stderr.String())
		}
	})
}

// TestRunLosesItsModel: kill -9 of Ollama's process for the model, in the middle of an
// answer, and again whenever the run has begun its turn anew. It is left to wait with an error that
// says why and how to go on, and the next one works (ROB-2).
func TestRunLosesItsModel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks for processes in /proc, which is Linux's")
	}
	t.Parallel()
	for _, tt := range []struct {
		backend
		why string
	}{{native, "an error was encountered while running the model"}, {compat, "the stream ended before the turn was complete"}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, server := tt.alone(t, 8)
			u := newUser(t, s)
			p := u.start("#forever")
			p.pieces(5)
			killRunner(t, server)
			kills, again := 1, false
			for ev := p.next(); ev != nil; ev = p.next() {
				switch {
				case ev.Type == "model_retried" || ev.Type == "turn_restarted":
					again = true
				case ev.Type == "text" && again && kills < 20: // of the new process
					killRunner(t, server)
					kills, again = kills+1, false
				}
			}
			p.end()
			p.check(exitUnreachable, "waiting")
			if kills < 2 || kills == 20 || !strings.Contains(p.stderr.String(), tt.why) || !strings.Contains(p.stderr.String(), "troupe runs resume ") {
				t.Errorf("after %d kills: got stderr\n%s\nwant %q and the next step in it", kills, p.stderr.String(), tt.why)
			}
			u.run("Hello").check(exitOK, "finished")
		})
	}
}

// TestRunLosesItsServer: kill -9 of the whole server, for good.
func TestRunLosesItsServer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts real model servers")
	}
	server := modelservers.ServeLlama(t, modelservers.Behaviour(), nil)
	s := service{llama, server.URL, modelservers.LlamaModel}
	u := newUser(t, s)
	p := u.start("#forever")
	p.pieces(5)
	server.Kill()
	p.end()
	if code := p.ProcessState.ExitCode(); code != exitUnreachable || p.last().State != "waiting" || !strings.Contains(p.stderr.String(), "troupe runs resume ") {
		t.Errorf("exited with %d, the last event is %+v:\n%s", code, p.last(), p.stderr.String())
	}
	t.Logf("exit code %d: %s", p.ProcessState.ExitCode(), p.stderr.String())

	s.url = modelservers.ServeLlama(t, modelservers.Behaviour(), nil).URL
	newUser(t, s).run("Hello").check(exitOK, "finished")
}
