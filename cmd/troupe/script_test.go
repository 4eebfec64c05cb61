package main

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// TestScripts runs testdata/script. Beside the usual commands scripts have
//
//	model [openai|ollama|SERVICE] FILE   start a scripted model server (OpenAI's dialect if none is
//	                             named; a SERVICE is one of [llmtest.Service]) and point troupe at it; see [parseTurns]
//	asked N                      it was asked N times, rightly, and has no turns left
//	exits CODE COMMAND...        run a command that exits with the code
//	until REGEXP COMMAND...      run a command again and again until its stdout matches
//	port NAME                    set a variable to a free port of 127.0.0.1
//	listening PORT               wait until a server listens there
//	capture NAME REGEXP          set a variable to what the first group matches in stdout,
//	                             or else in stderr
//	expired RUN                  the lease of a run is over, as if its minute had passed
//
// No script has a terminal: stdin is a pipe.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, ".home")
			e.Setenv("HOME", home)
			e.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			e.Setenv("OLLAMA_HOST", nowhere)
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Values[modelKey{}] = new(*llmtest.Server)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"model":     startModel,
			"asked":     checkModel,
			"exits":     checkExit,
			"until":     runUntil,
			"capture":   capture,
			"protected": startProtected,
			"port":      freePort,
			"listening": waitForPort,
			"expired":   expire,
		},
	})
}

// nowhere is an address without a listener.
const nowhere = "127.0.0.1:1"

// modelKey is where a script keeps its model server.
type modelKey struct{}

func startModel(ts *testscript.TestScript, neg bool, args []string) {
	dialect, service := "openai", llmtest.Service("")
	if len(args) == 2 {
		dialect, args = args[0], args[1:]
	}
	switch service = llmtest.Service(dialect); service {
	case llmtest.OpenAI, llmtest.DeepSeek, llmtest.Gemini, llmtest.OpenRouter:
		dialect = "openai"
	case llmtest.Thinking:
		dialect = "ollama"
	default:
		service = ""
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: model [openai|ollama|SERVICE] FILE")
	}
	turns, err := parseTurns(ts.ReadFile(args[0]))
	ts.Check(err)
	script := llmtest.NewServer(turns...)
	script.Service = service
	srv := httptest.NewServer(script)
	ts.Defer(func() { srv.CloseClientConnections(); srv.Close() })
	ts.Setenv("TROUPE_MODEL", dialect+"/scripted")
	switch dialect {
	case "openai":
		ts.Setenv("OPENAI_BASE_URL", srv.URL)
	case "ollama":
		ts.Setenv("OLLAMA_HOST", srv.URL)
	default:
		ts.Fatalf("model: unknown dialect %q", dialect)
	}
	*ts.Value(modelKey{}).(**llmtest.Server) = script
}

func checkModel(ts *testscript.TestScript, neg bool, args []string) {
	s := *ts.Value(modelKey{}).(**llmtest.Server)
	if neg || len(args) != 1 || s == nil {
		ts.Fatalf("usage: asked N, after model")
	}
	if want := args[0]; strconv.Itoa(len(s.Chats())) != want || s.Remaining() != 0 || len(s.Failures()) > 0 {
		ts.Fatalf("the model was asked %d times, want %s; %d turns are left; failures: %q", len(s.Chats()), want, s.Remaining(), s.Failures())
	}
}

func checkExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s: exited with %d, want %s", strings.Join(args[1:], " "), code, args[0])
	}
	if bad := badKeys(ts.ReadFile("stdout")); printsJSON(args) && len(bad) > 0 {
		ts.Fatalf("%s: members of its JSON are not in camelCase: %q", strings.Join(args[1:], " "), bad)
	}
}

// untilTime bounds the runs of a command.
const untilTime = time.Minute

func runUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND...")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(untilTime); ; time.Sleep(50 * time.Millisecond) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if re.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("nothing matches %q", args[0])
		}
	}
}

func expire(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expired RUN")
	}
	db, err := sql.Open(sql.Drivers()[0], filepath.Join(ts.Getenv("XDG_STATE_HOME"), "troupe", "troupe.db")) // the driver that the store links
	ts.Check(err)
	defer db.Close()
	changed, err := db.Exec("UPDATE runs SET expires = 1 WHERE id = ? AND owner <> ''", args[0])
	ts.Check(err)
	if n, err := changed.RowsAffected(); n != 1 || err != nil {
		ts.Fatalf("%d runs %q have a lease, %v", n, args[0], err)
	}
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	for _, text := range []string{ts.ReadFile("stdout"), ts.ReadFile("stderr")} {
		if m := re.FindStringSubmatch(text); len(m) == 2 {
			ts.Setenv(args[0], m[1])
			return
		}
	}
	ts.Fatalf("nothing matches %q", args[1])
}

// parseTurns reads a model's script: one thing in a line, joined to the turn before
// it if it begins with "&".
//
//	say TEXT          an answer
//	call NAME JSON    a tool call
//	results           an answer that repeats the results of all tools
//	wait DURATION     say nothing for so long
//	status CODE TEXT  an error answer
//	finish REASON     the reason with which the turn ends, in a server's words; joined to one it sets that one's
//	said              an answer that says how many messages there were before the last, and
//	                  repeats that one if it begins with a slash
func parseTurns(text string) ([]llmtest.Turn, error) {
	var turns []llmtest.Turn
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		row, join := strings.CutPrefix(strings.TrimSpace(in.Text()), "& ")
		if row == "" {
			continue
		}
		t, err := parseTurn(row)
		switch {
		case err != nil:
			return nil, err
		case join && len(turns) > 0:
			turns[len(turns)-1] = llmtest.Join(turns[len(turns)-1], t)
		default:
			turns = append(turns, t)
		}
	}
	return turns, nil
}

func parseTurn(row string) (llmtest.Turn, error) {
	word, rest, _ := strings.Cut(row, " ")
	switch word {
	case "say":
		return llmtest.Say(rest), nil
	case "think":
		return llmtest.Think(rest), nil
	case "call":
		name, args, _ := strings.Cut(rest, " ")
		return llmtest.Call(name, args), nil
	case "results":
		return llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			return llmtest.Say(strings.Join(toolTexts(req), "\n"))
		}), nil
	case "said":
		return llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			text := fmt.Sprintf("%d messages before this one", len(req.Messages)-1)
			if last := req.Messages[len(req.Messages)-1].Content.Text(); strings.HasPrefix(last, "/") {
				text = last + ": " + text
			}
			return llmtest.Say(text)
		}), nil
	case "wait":
		d, err := time.ParseDuration(rest)
		return llmtest.Slow(d), err
	case "finish":
		return llmtest.Turn{}.Finish(llm.FinishReason(rest)), nil
	case "status":
		status, text, _ := strings.Cut(rest, " ")
		code, err := strconv.Atoi(status)
		return llmtest.Reply(code, fmt.Sprintf(`{"error":{"message":%q}}`, cmp.Or(text, "scripted"))), err
	}
	return llmtest.Turn{}, fmt.Errorf("a model's script: unknown word %q", word)
}

// toolTexts are the texts of the tools' results, the oldest first.
func toolTexts(req *llm.Request) []string {
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

// resultsOf is a turn that answers with the texts of all tools.
func resultsOf() llmtest.Turn {
	return llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		return llmtest.Say(strings.Join(toolTexts(req), "\n"))
	})
}

// TestHelpHasExamples walks the commands: each says what it is for, and each that
// does something shows how.
func TestHelpHasExamples(t *testing.T) {
	commands := 0
	var walk func(path ...string)
	walk = func(path ...string) {
		root := command((&env.Env{}))
		cmd, _, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Short == "" {
			t.Errorf("%s: it does not say what it is for", cmd.CommandPath())
		}
		if !cmd.HasSubCommands() && cmd.Runnable() {
			commands++
			if !strings.Contains(cmd.Example, cmd.CommandPath()) {
				t.Errorf("%s: the example %q does not show it", cmd.CommandPath(), cmd.Example)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(append(path, sub.Name())...)
		}
	}
	walk()
	if commands < 8 {
		t.Errorf("got %d commands, want at least 8", commands)
	}
}
