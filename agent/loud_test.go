package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// logged is what the default logger has written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// defaultLog replaces the default logger for the test, at the level of debug messages.
func defaultLog(t *testing.T) *logged {
	t.Helper()
	log, before := new(logged), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}

// TestMisspeltServer: a server whose command does not exist is a warning of the default
// logger and named as absent, and an error of Open where it is required.
func TestMisspeltServer(t *testing.T) {
	misspelt := mcpclient.Command("no-such-command-of-troupe")
	misspelt.Name = "files"
	log := defaultLog(t)
	rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Script(llmtest.Say("done")), Servers: []mcpclient.Server{misspelt}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := rt.Start(t.Context(), "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	var absent []agent.Absent
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if listed, ok := ev.(agent.ToolsListed); ok {
			absent = append(absent, listed.Absent...)
		}
	}
	if len(absent) != 1 || absent[0].Server != "files" || !strings.Contains(absent[0].Reason, "no-such-command-of-troupe") {
		t.Errorf("absent: got %+v, want files with the name of its command", absent)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "no-such-command-of-troupe") || strings.Contains(text, "level=INFO") {
		t.Errorf("the default logger has %q, want a warning with the command, and nothing below", text)
	}

	misspelt.Required = true
	if _, err := agent.Open(t.Context(), &agent.Options{Servers: []mcpclient.Server{misspelt}}); err == nil ||
		!strings.Contains(err.Error(), "files") || !strings.Contains(err.Error(), "no-such-command-of-troupe") {
		t.Errorf("Open with a required server that does not start: got %v, want an error that names server and command", err)
	}
	misspelt.Disabled = true
	if _, err := agent.Open(t.Context(), &agent.Options{Servers: []mcpclient.Server{misspelt}}); err == nil || !strings.Contains(err.Error(), "disabled") {
		t.Errorf("Open with a required server that is disabled: got %v, want an error that says so", err)
	}
}

// TestToolPanicIsLogged: without a logger of the program's the default logger has a tool's
// panic, with the place.
func TestToolPanicIsLogged(t *testing.T) {
	log := defaultLog(t)
	rt, err := agent.Open(t.Context(), &agent.Options{
		Model: llmtest.Script(call("boom", in{1}), llmtest.Say("done")),
		Tools: []agent.Tool{agent.Func("boom", "", func(context.Context, in) (string, error) { panic("lost the key") })}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	if _, err := rt.Run(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "lost the key") || !strings.Contains(text, "loud_test.go") {
		t.Errorf("the default logger has %q, want the panic with its stack", text)
	}
}

func inputOf[In any]() agent.Tool {
	return agent.Func("f", "", func(context.Context, In) (string, error) { return "", nil })
}

// TestFuncInput: what is not a JSON object can not be the arguments of a tool.
func TestFuncInput(t *testing.T) {
	rt := open(t, &agent.Options{Model: llmtest.Script()})
	for name, tool := range map[string]agent.Tool{"int": inputOf[int](), "*string": inputOf[*string](), "[]string": inputOf[[]string](), "bool": inputOf[bool]()} {
		if _, err := rt.Agent("a", &agent.Config{Tools: []agent.Tool{tool}}); err == nil || !strings.Contains(err.Error(), "its input is of type "+name+": want a struct") {
			t.Errorf("a function of %s: got %v, want an error that says what it takes", name, err)
		}
	}
	for name, tool := range map[string]agent.Tool{"struct": inputOf[in](), "pointer": inputOf[*in](), "map": inputOf[map[string]int](),
		"any": inputOf[any](), "json.RawMessage": inputOf[json.RawMessage](), "empty": inputOf[struct{}]()} {
		if _, err := rt.Agent("a", &agent.Config{Tools: []agent.Tool{tool}}); err != nil {
			t.Errorf("a function of %s: %v", name, err)
		}
	}
}
