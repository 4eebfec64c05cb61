package agent_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
)

// diesAt is a store whose process ends before the n-th event of a type is written.
type diesAt struct {
	killed
	typ  string
	left atomic.Int64
}

func (d *diesAt) Append(ctx context.Context, a store.Append) (int64, error) {
	for _, e := range a.Events {
		if e.Type == d.typ && d.left.Add(-1) == 0 {
			d.dead.Store(true)
		}
	}
	return d.killed.Append(ctx, a)
}

// TestResumeRound: a call whose server wants input has not been carried out (MRTR-10, MRTR-11). Its run
// sends the next round when it goes on in another process: the questions stay the same, each answer
// counts once, and the call has one effect. Only a round that may have been sent is of unknown outcome.
func TestResumeRound(t *testing.T) {
	const safe, suspended = "safe", "suspended"
	for _, tt := range []struct {
		name    string
		dies    string // at the n-th event of this type; empty once the first question is open
		n       int64
		before  int           // answers that the first process gets
		away    time.Duration // before the run goes on
		kind    string        // of the tool
		answers int           // to forms that are asked of the second process, or while it is away
		unknown bool          // the outcome is asked about
		forms   int           // in all
		made    int64
		says    string
	}{
		{"the first form is open", "", 0, 0, 0, "", 2, false, 2, 1, "made red red"},
		{"the first form is open, and it is suspended", suspended, 0, 0, 0, "", 2, false, 2, 1, "made red red"},
		{"the second form is open, and it is suspended", suspended, 0, 1, 0, "", 1, false, 2, 1, "made red red"},
		{"the second form is open", "", 0, 1, 0, "", 1, false, 2, 1, "made red red"},
		{"answered, and not sent", store.ToolDispatched, 2, 1, 0, "", 1, false, 2, 1, "made red red"},
		{"all answered, and not sent", store.ToolDispatched, 3, 2, 0, "", 0, false, 2, 1, "made red red"},
		{"sent, and carried out", store.ToolResult, 1, 2, 0, "", 0, true, 2, 1, "has ended"},
		{"too late", "", 0, 1, 2 * time.Hour, "", 1, false, 2, 0, "requestState"},
		{"too late, and safe", "", 0, 1, 2 * time.Hour, safe, 3, false, 4, 1, "made red red"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server, err := mcpserver.New(mcp.Implementation{Name: "asking", Version: "1"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := server.Shutdown(context.Background()); err != nil {
						t.Errorf("Shutdown: %v", err)
					}
				})
				var made atomic.Int64
				type form struct {
					Word string `json:"word"`
				}
				tool := &mcp.Tool{Name: "make", Annotations: &mcp.ToolAnnotations{IdempotentHint: tt.kind == safe}}
				err = mcpserver.AddTool(server, tool, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
					var words []string
					for _, key := range []string{"one", "two"} {
						f, err := mcpserver.Elicit[form](ctx, req, key, "Which word is "+key+"?")
						if err != nil {
							return "", err
						}
						words = append(words, f.Word)
					}
					made.Add(1)
					return "made " + strings.Join(words, " "), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				s := memory()
				first := &diesAt{killed: killed{Store: s}, typ: tt.dies}
				first.left.Store(tt.n)
				opts := func(s store.Store) *agent.Options {
					srv := mcpclient.InProcess("asking", server)
					srv.Trusted = true
					return &agent.Options{Store: s, Servers: []mcpclient.Server{srv}, Model: llmtest.ByHistory(call("asking__make", nil), llmtest.Say("ok")), OnUnknown: agent.TellUnknown,
						Host: &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{AskExpiry: 24 * time.Hour}}}}
				}
				answer := func(n int) {
					t.Helper()
					for range n {
						time.Sleep(2 * time.Second)
						synctest.Wait()
						open, err := s.Asks(t.Context(), store.AskQuery{Run: "r1", Status: store.AskPending})
						if err != nil || len(open) != 1 {
							t.Fatalf("the open questions: got %+v, %v, want one", open, err)
						}
						d := store.Decision{Status: store.AskAccepted, By: "ada", Scope: "once", Answer: []byte(`{"action":"accept","content":{"word":"red"}}`)}
						if _, err := s.SettleAsk(t.Context(), open[0].ID, d); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(2 * time.Second)
					synctest.Wait()
				}
				define := func(s store.Store) (*agent.Runtime, *agent.Agent) {
					rt := open(t, opts(s))
					a, err := rt.Agent("agent", &agent.Config{Approve: agent.NeverAsk, AskExpiry: 24 * time.Hour})
					if err != nil {
						t.Fatal(err)
					}
					return rt, a
				}
				_, a := define(first)
				begun, err := a.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"})
				if err != nil {
					t.Fatal(err)
				}
				answer(tt.before)
				if tt.dies == suspended {
					synctest.Wait()
					if err := begun.Suspend(t.Context()); err != nil {
						t.Fatal(err)
					}
				} else {
					first.dead.Store(true)
					time.Sleep(2*time.Minute + tt.away)
				}
				rt, _ := define(s)
				run, err := rt.Resume(t.Context(), "r1", nil)
				if err != nil {
					t.Fatal(err)
				}
				answer(tt.answers)
				res, err := run.Wait(t.Context())
				if err != nil || res.Text != "ok" || made.Load() != tt.made || res.ToolCalls != 1 {
					t.Errorf("got %+v, %v, made %d times", res, err, made.Load())
				}
				asks, err := s.Asks(t.Context(), store.AskQuery{Run: "r1"})
				if err != nil || len(asks) != tt.forms {
					t.Errorf("the questions: got %+v, %v, want %d", asks, err, tt.forms)
				}
				for _, a := range asks {
					if a.Status != store.AskAccepted {
						t.Errorf("the question %s is %s", a.ID, a.Status)
					}
				}
				if got := strings.Join(transcript(t, run), "\n"); !strings.Contains(got, tt.says) {
					t.Errorf("the events are\n%s\nwant %q", got, tt.says)
				}
				entries, err := runlog.Entries(t.Context(), s, "r1")
				if err != nil {
					t.Fatal(err)
				}
				if unknown := slices.ContainsFunc(entries, func(e runlog.Entry) bool { return e.Type == store.ToolUnknown }); unknown != tt.unknown {
					t.Errorf("the outcome is unknown: got %v", unknown)
				}
			})
		})
	}
}
