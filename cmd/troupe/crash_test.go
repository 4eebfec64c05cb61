package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/runs"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// crashSeed makes the moments of the kills; each failure names its kill.
const crashSeed = 20260728

// crashKills is how often TestKillNine kills.
func crashKills() int {
	if raceDetector || testing.Short() {
		return 3
	}
	return 30
}

// TestKillNine kills a run with SIGKILL at random moments while it makes call after
// call on a server whose tool has an effect that can be counted. Whatever the moment:
// what was acknowledged is there, no number is missing, each effect has its intent and
// its dispatch, none came twice, and "runs show" names the calls with an unknown
// outcome (SECA-53). The server does not stay (ROB-7).
func TestKillNine(t *testing.T) {
	needProc(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(crashSeed, crashSeed))
	t.Logf("seed %d", crashSeed)
	h := newHome(t)
	// As many calls as it has time for, two at once, and never the same ones again: that
	// would be a model that turns in circles.
	h.plays("openai", llmtest.NewServer(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		n := len(req.Messages)
		return llmtest.Calls(llmtest.Call("effects__append", fmt.Sprintf(`{"text":"one %d"}`, n)),
			llmtest.Call("effects__append", fmt.Sprintf(`{"text":"two %d"}`, n)))
	})).Loop())
	total := crashed{}
	for n := range crashKills() {
		c := &crash{t: t, home: h, run: fmt.Sprint("run-", n), effects: h.path(fmt.Sprint("lines-", n, ".txt"))}
		events, longer := rng.IntN(150), time.Duration(rng.IntN(4000))*time.Microsecond
		if n%5 == 4 { // while it starts
			events, longer = 0, longer*25
		}
		c.kill(events, longer)
		h.noProcessLeft(10 * time.Second)
		c.checkIntegrity()
		c.check()
		total.add(c.crashed)
		if t.Failed() {
			t.Fatalf("that was kill %d", n)
		}
	}
	t.Logf("%d kills: %+v", crashKills(), total)
	if total.Effects == 0 || total.Acknowledged == 0 {
		t.Errorf("got %+v, want some of each: nothing was tested", total)
	}
	if runs := h.must("runs", "ls", "-n", "100"); strings.Count(runs, "run-") < crashKills()/2 {
		t.Errorf("runs ls: got\n%s", runs)
	}
}

// crashed counts what was there after kills.
type crashed struct{ Acknowledged, Journalled, Effects, Open int }

func (c *crashed) add(o crashed) {
	c.Acknowledged += o.Acknowledged
	c.Journalled += o.Journalled
	c.Effects += o.Effects
	c.Open += o.Open
}

// crash is one run that is killed.
type crash struct {
	crashed
	t       *testing.T
	home    *home
	run     string
	effects string // file
	seen    []streamed
}

// kill runs troupe until it has printed so many events, and a little longer. What it
// had printed by then counts, but for a line that is not whole.
func (c *crash) kill(events int, longer time.Duration) {
	c.t.Helper()
	cmd := c.home.command("run", "--yes", "--mcp", "effects "+c.effects, "--run-id", c.run, "--output-format", "stream-json",
		"--max-steps", "100000", "--max-tool-calls", "100000", "Append lines.")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == events {
			time.AfterFunc(longer, func() { _ = cmd.Process.Kill() })
		}
		text, err := in.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.t.Errorf("reading stdout: %v", err)
			}
			break
		}
		var ev streamed
		if err := json.Unmarshal(text, &ev); err != nil {
			c.t.Errorf("line %d of stdout: %v: %.300q", n, err, text)
		}
		c.seen = append(c.seen, ev)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		c.t.Fatalf("%s was not killed, it ended with %v after %d events: %s", c.run, err, len(c.seen), stderr.String())
	}
}

// database is the store's file.
func (c *crash) database() string { return c.home.path("state/troupe/troupe.db") }

// checkIntegrity asks SQLite itself, before the store has seen the file again.
func (c *crash) checkIntegrity() {
	c.t.Helper()
	if _, err := os.Stat(c.database()); err != nil && len(c.seen) == 0 {
		return // killed before there was one
	}
	db, err := sql.Open(sql.Drivers()[0], c.database()) // the one that the store links
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		c.t.Errorf("integrity_check: got %q, %v, want ok", verdict, err)
	}
}

// callEvents are the events of one call, by their numbers; zero for none.
type callEvents struct{ intent, dispatched, ended int64 }

// check reads the journal of the run and holds everything else to it.
func (c *crash) check() {
	c.t.Helper()
	s, err := sqlite.Open(c.database(), nil)
	if err != nil {
		c.t.Fatalf("opening the store: %v", err)
	}
	defer s.Close()
	head, err := s.Run(c.t.Context(), c.run)
	if errors.Is(err, store.ErrNotFound) && len(c.seen) == 0 {
		if _, err := os.Stat(c.effects); err == nil {
			c.t.Errorf("%s: effects without a run", c.run)
		}
		return
	}
	if err != nil {
		c.t.Fatal(err)
	}
	events := make(map[int64]store.Event)
	calls := make(map[string]*callEvents)
	for ev, err := range store.Replay(c.t.Context(), s, c.run, 0) {
		if err != nil {
			c.t.Fatal(err)
		}
		if ev.Seq != int64(len(events))+1 {
			c.t.Errorf("%s: event %d comes after %d", c.run, ev.Seq, len(events))
		}
		events[ev.Seq] = ev
		noteCall(calls, ev)
	}
	if head.Seq != int64(len(events)) {
		c.t.Errorf("%s: the run says it has %d events, got %d", c.run, head.Seq, len(events))
	}
	c.Journalled = len(events)
	c.checkAcknowledged(events)
	c.checkEffects(calls)
	c.checkShown(calls)
}

func noteCall(calls map[string]*callEvents, ev store.Event) {
	e := calls[ev.Key]
	if e == nil {
		e = new(callEvents)
		calls[ev.Key] = e
	}
	switch ev.Type {
	case store.ToolIntent:
		e.intent = ev.Seq
	case store.ToolDispatched:
		e.dispatched = ev.Seq
	case store.ToolResult, store.ToolUnknown:
		e.ended = ev.Seq
	}
}

// journalled are the types of the journal for those of the stream; what is not here
// has the number of an event before it.
var journalled = map[string]string{
	"run_started": store.RunStarted, "tools_listed": "tools.listed", "model_turn": store.ModelResult,
	"tool_started": store.ToolDispatched, "tool_result": store.ToolResult, "run_finished": store.RunFinished,
}

// checkAcknowledged: what was printed is there, under its number.
func (c *crash) checkAcknowledged(events map[int64]store.Event) {
	c.t.Helper()
	for _, ev := range c.seen {
		got, ok := events[ev.Seq]
		want, durable := journalled[ev.Type]
		switch {
		case !ok:
			c.t.Errorf("%s: %s was printed with the number %d, which is not in the journal", c.run, ev.Type, ev.Seq)
		case durable && (got.Type != want || got.Key != ev.Key):
			c.t.Errorf("%s: event %d: got %s %q, printed was %s %q", c.run, ev.Seq, got.Type, got.Key, ev.Type, ev.Key)
		case durable:
			c.Acknowledged++
		}
	}
}

// checkEffects: each effect was intended and dispatched before, and came once; each
// result has its effect.
func (c *crash) checkEffects(calls map[string]*callEvents) {
	c.t.Helper()
	data, err := os.ReadFile(c.effects)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	effects := make(map[string]bool)
	for row := range strings.Lines(string(data)) {
		key, _, _ := strings.Cut(row, "\t")
		call := calls[key]
		switch {
		case key == "" || call == nil:
			c.t.Errorf("%s: the effect %q was never intended", c.run, row)
			continue
		case call.intent == 0 || call.dispatched <= call.intent:
			c.t.Errorf("%s: the effect %q: got intent %d and dispatch %d, want them in this order", c.run, row, call.intent, call.dispatched)
		case effects[key]:
			c.t.Errorf("%s: the effect %q came twice", c.run, row)
		}
		effects[key] = true
	}
	for key, call := range calls {
		if call.ended > 0 && !effects[key] {
			c.t.Errorf("%s: the call %s has a result and no effect", c.run, key)
		}
	}
	c.Effects = len(effects)
}

// checkShown: the program itself names the calls without an outcome, and no others.
func (c *crash) checkShown(calls map[string]*callEvents) {
	c.t.Helper()
	open := make(map[string]bool) // whether it was dispatched
	for key, call := range calls {
		if call.intent > 0 && call.ended == 0 {
			open[key] = call.dispatched > 0
		}
	}
	var shown struct {
		Open []runs.OpenCall `json:"open"`
	}
	if err := json.Unmarshal([]byte(c.home.must("runs", "show", c.run, "--json")), &shown); err != nil {
		c.t.Fatal(err)
	}
	got := make(map[string]bool)
	for _, call := range shown.Open {
		got[call.Key] = call.Dispatched
	}
	if !maps.Equal(got, open) {
		c.t.Errorf("runs show --json: got the open calls %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(open)))
	}
	text := c.home.must("runs", "show", c.run)
	if n := strings.Count(text, "unknown: effects__append"); n != len(open) {
		c.t.Errorf("runs show: got %d unknown calls, want %d:\n%s", n, len(open), text)
	}
	c.Open = len(open)
}

// TestKillNineInCall kills a run while a call is surely under way: it is named, with
// the warning that it may have had its effect.
func TestKillNineInCall(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := newHome(t)
	h.plays("ollama", llmtest.NewServer(llmtest.Call("effects__hang", `{}`)))
	s := h.start("run", "--yes", "--mcp", "effects lines.txt", "--output-format", "stream-json", "--run-id", "cut", "Wait.")
	s.until("progress", func(ev *streamed) bool { return ev.Type == "tool_progress" })
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.end()
	h.noProcessLeft(10 * time.Second)
	shown := h.must("runs", "show", "cut")
	if !strings.Contains(shown, "unknown: effects__hang {} has no recorded outcome; it was dispatched and may have had its effect") {
		t.Errorf("runs show: got\n%s", shown)
	}
	if strings.Contains(shown, "run.finished") {
		t.Errorf("runs show: the run has not finished:\n%s", shown)
	}
}
