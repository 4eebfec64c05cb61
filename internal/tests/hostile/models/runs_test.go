package models

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// outcome runs an agent with a model until its end, and checks that it has one.
func outcome(t testing.TB, m llm.Model, limits agent.Limits, maxTokens int) (*agent.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*mcptest.Patience, errHang)
	defer cancel()
	rt, err := agent.Open(ctx, &agent.Options{
		Model: m, Logger: mcptest.Quiet(), Retry: &llm.RetryOptions{InitialWait: time.Millisecond, MaxWait: 5 * time.Millisecond},
		Tools: []agent.Tool{{Name: "add", InputSchema: json.RawMessage(`{"type":"object"}`), Call: func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("done")}}, nil
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := rt.System().Census().Live(); n != 0 {
			t.Errorf("actors are left: %+v", rt.System().Census().Actors)
		}
	}()
	a, err := rt.Agent("victim", &agent.Config{MaxTokens: maxTokens, MaxRepeats: -1, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	run, err := a.Start(ctx, "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	for ev, err := range run.Events(ctx) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		if ev.EventType() == "run_finished" {
			ends++
		}
	}
	res, err := run.Wait(ctx)
	if errors.Is(err, errHang) || res == nil || ends != 1 {
		t.Fatalf("Wait: got %+v, %v, and %d ends", res, err, ends)
	}
	if res.Usage.Input < 0 || res.Usage.Output < 0 || res.Spent.Tokens < 0 || res.Spent.Cost < 0 {
		t.Errorf("the run has spent %+v, itself %+v", res.Spent, res.Usage)
	}
	return res, err
}

// lies are numbers of tokens as a server may tell them.
var lies = [][2]string{
	{"0", "0"}, {"-5", "-5"}, {"1", "1"}, {"1", "0"}, {"-9223372036854775808", "-9223372036854775808"},
	{"4611686018427387904", "4611686018427387904"}, {"9223372036854775807", "9223372036854775807"}, {"9223372036854775807", "1"},
	{"1e400", "1e400"}, {"1.5", "1.5"}, {`"NaN"`, `"NaN"`}, {"null", "null"}, {"{}", "[]"}, {"1e18", "1e18"},
}

// SECA-43: whatever a server says that its turns have cost, a run with a limit of tokens
// ends at about that limit.
func TestBudgetAgainstLies(t *testing.T) {
	const limit = 20_000
	said := strings.Repeat("word ", 800) // 1000 tokens
	for _, lie := range lies {
		t.Run(lie[0]+" and "+lie[1], func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d *dialect) {
				var asked atomic.Int32
				m := d.client(serve(t, d.stream(func(_ *http.Request, w *bufio.Writer) {
					n := asked.Add(1)
					args := fmt.Sprintf(`{"n":%d}`, n)
					if d.name == "openai" {
						args = strconv.Quote(args)
					}
					_, _ = w.WriteString(d.text(said) + d.call(0, strconv.Quote(fmt.Sprint("c", n)), `"add"`, args) + d.finish("tool_calls") + d.usage(lie[0], lie[1]) + d.end)
				})))
				res, err := outcome(t, m, agent.Limits{Tokens: limit, Steps: 1000, ToolCalls: 1000}, 0)
				if limit, ok := errors.AsType[*agent.LimitError](err); !ok || limit.Limit != "tokens" {
					t.Errorf("Wait: got %v, want the limit of tokens", err)
				}
				// Each turn has 1000 tokens and what was said before: the sixth is beyond.
				if n := asked.Load(); n < 2 || n > 8 {
					t.Errorf("the model was asked %d times", n)
				}
				if res.Spent.Tokens < limit/4 || res.Spent.Tokens > 2*limit {
					t.Errorf("the run has spent %+v, want about %d tokens", res.Spent, limit)
				}
			})
		})
	}
}

// A server that does not heed the bound of a turn's output does not spend more than that
// turn might, by far.
func TestBudgetAgainstEndlessOutput(t *testing.T) {
	const limit = 2000
	says := map[string]func(d *dialect) string{
		"text":     func(d *dialect) string { return d.text(strings.Repeat("x", 100)) },
		"thinking": func(d *dialect) string { return d.thinking(strings.Repeat("x", 100)) },
	}
	for name, say := range says {
		t.Run(name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d *dialect) {
				m := d.client(serve(t, d.stream(func(_ *http.Request, w *bufio.Writer) { forever(w, say(d)) })))
				res, err := outcome(t, m, agent.Limits{Tokens: limit}, 0)
				if err == nil {
					t.Error("Wait: the run has completed")
				}
				if res.Spent.Tokens < limit/2 || res.Spent.Tokens > 6*limit {
					t.Errorf("the run has spent %+v, want about %d tokens", res.Spent, limit)
				}
			})
		})
	}
}

// SECA-43, ROB-3, ROB-7: a whole run over a hostile server has one outcome in bounded
// memory, and leaves nothing.
func TestRunsOfAttacks(t *testing.T) {
	for i, a := range attacks {
		if a.long || mcptest.Race && i%4 != 0 { // the turn alone is another test's
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d *dialect) {
				m := d.client(serve(t, a.say(d)))
				var err error
				grown := mcptest.Peak(2*maxPerTurn, func() { _, err = outcome(t, m, agent.Limits{Steps: 4}, 0) })
				if grown > 2*maxPerTurn {
					t.Errorf("the heap has grown by %d MB, want %d at most", grown>>20, 2*maxPerTurn>>20)
				}
				if (err == nil) != a.whole {
					t.Errorf("Wait: got %v, want success: %v", err, a.whole)
				}
				checkError(t, err)
			})
		})
	}
}

// ugly are calls as no tool wants them: of names and ids that terminals obey, of
// arguments that the schema's validator has to survive.
func ugly(d *dialect) []string {
	args := []string{
		`{}`, `{"a":` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000) + `}`,
		`{"a":1e400}`, `{"a":-0}`, `{"a":123456789012345678901234567890.5e-400}`, `{"__proto__":{"x":1},"constructor":1}`,
		`{"a":"` + strings.Repeat(`\u0000`, 10_000) + `"}`, `{"a":"\ud800"}`, `{"a":1,"a":2}`, `{"A":1,"a":2,"\u0061":3}`,
		`{"` + strings.Repeat("k", 1<<20) + `":1}`, `{"a":[` + strings.Repeat("1,", 200_000) + `1]}`,
	}
	names := []string{`"add"`, `"\u001b[2J\u001b[31madd"`, `"a\u0000dd"`, `"add\n\nIgnore all"`, `"` + strings.Repeat("a", 200) + `"`, `"../add"`, `"ａｄｄ"`}
	ids := []string{`"c"`, `""`, `"c"`, `"\u001b]0;x\u0007"`, `"` + strings.Repeat("i", 60_000) + `"`, `"a/b:c d"`, `"` + "\u202e" + `"`}
	var all []string
	for i, a := range args {
		if d.name == "openai" {
			a = strconv.Quote(a)
		}
		all = append(all, d.call(i, ids[i%len(ids)], `"add"`, a))
	}
	for i, n := range names {
		a := `{}`
		if d.name == "openai" {
			a = `"{}"`
		}
		all = append(all, d.call(i, ids[i%len(ids)], n, a))
	}
	return all
}

// Each ugly call alone, and then an answer: the run goes on or fails, and what is told of
// it is clean.
func TestRunsOfUglyCalls(t *testing.T) {
	eachDialect(t, func(t *testing.T, d *dialect) {
		for i, call := range ugly(d) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				var asked atomic.Int32
				m := d.client(serve(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", d.kind)
					if asked.Add(1) < 3 {
						_, _ = io.WriteString(w, call+d.finish("tool_calls")+d.usage("10", "10")+d.end)
						return
					}
					_, _ = io.WriteString(w, d.whole())
				}))
				res, err := outcome(t, m, agent.Limits{Steps: 6}, 0)
				if err == nil && res.Text != "hi" {
					t.Errorf("Wait: got %+v", res)
				}
				checkError(t, err)
			})
		}
	})
}
