package agent_test

import (
	"context"
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

// TestResumeTask: a call that its server has made a task of is asked for again by its handle when its
// run goes on in another process; it is made once. What the server does not know any more is a
// question.
func TestResumeTask(t *testing.T) {
	for _, tt := range []struct {
		name   string
		away   time.Duration // until the run goes on
		answer string        // to the question, empty for none
		made   int64
		says   string
	}{
		{"under way", 2 * time.Minute, "", 1, "made"},
		{"ended meanwhile", 20 * time.Minute, "", 1, "made"},
		{"forgotten", 3 * time.Hour, runlog.OutcomeTell, 1, "has ended"},
		{"forgotten, again", 3 * time.Hour, runlog.OutcomeAgain, 2, "made"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server, err := mcpserver.New(mcp.Implementation{Name: "slow", Version: "1"}, &mcpserver.Options{Tasks: &mcpserver.TaskOptions{TTL: time.Hour, MaxTTL: time.Hour}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := server.Shutdown(context.Background()); err != nil {
						t.Errorf("Shutdown: %v", err)
					}
				})
				var made atomic.Int64
				err = mcpserver.AddTool(server, &mcp.Tool{Name: "make", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
					func(ctx context.Context, _ *mcpserver.ToolRequest, _ struct{}) (string, error) {
						select {
						case <-time.After(9 * time.Minute):
							made.Add(1)
							return "made", nil
						case <-ctx.Done():
							return "", ctx.Err()
						}
					})
				if err != nil {
					t.Fatal(err)
				}
				s := memory()
				first := &killed{Store: s}
				opts := func(s store.Store) *agent.Options {
					srv := mcpclient.InProcess("slow", server)
					return &agent.Options{Store: s, Servers: []mcpclient.Server{srv}, Model: llmtest.ByHistory(call("slow__make", nil), llmtest.Say("ok")), Approve: agent.NeverAsk, OnUnknown: agent.AskUnknown}
				}
				start(t, open(t, opts(first)), "r1")
				time.Sleep(time.Second)
				synctest.Wait()
				first.dead.Store(true)
				time.Sleep(tt.away)
				run, err := open(t, opts(s)).Resume(t.Context(), "r1", nil)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				asks, err := s.Asks(t.Context(), store.AskQuery{Run: "r1"})
				if err != nil || len(asks) > 1 || (len(asks) == 1) != (tt.answer != "") {
					t.Errorf("the questions: got %+v, %v", asks, err)
				}
				for _, a := range asks {
					if _, err := s.SettleAsk(t.Context(), a.ID, runlog.OutcomeDecision(tt.answer, "")); err != nil {
						t.Fatal(err)
					}
				}
				res, err := run.Wait(t.Context())
				if err != nil || res.Text != "ok" || made.Load() != tt.made || res.ToolCalls != 1 {
					t.Errorf("got %+v, %v, made %d times", res, err, made.Load())
				}
				if got := strings.Join(transcript(t, run), "\n"); !strings.Contains(got, tt.says) {
					t.Errorf("the events are\n%s", got)
				}
			})
		})
	}
}
