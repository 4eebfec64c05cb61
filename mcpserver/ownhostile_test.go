package mcpserver_test

import (
	"context"
	"iter"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// lyingModel says a thousand tokens and a usage of its own invention.
type lyingModel struct {
	usage llm.Usage
	asked int
}

func (m *lyingModel) Name() string { return "llmtest/liar" }

func (m *lyingModel) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	m.asked++
	return func(yield func(llm.Event, error) bool) {
		if yield(llm.TextDelta{Text: strings.Repeat("word ", 800)}, nil) && yield(m.usage, nil) {
			yield(llm.Finish{Reason: llm.FinishStop}, nil)
		}
	}
}

// SECA-43: what a client may have of the server's own model is bounded also where the
// model's server does not count, or lies.
func TestOwnModelAgainstLies(t *testing.T) {
	for _, usage := range []llm.Usage{{}, {Input: -1, Output: -1}, {Input: 1, Output: 1}, {Input: 1 << 62, Output: 1 << 62}, {Input: math.MaxInt, Output: math.MaxInt}} {
		synctest.Test(t, func(t *testing.T) {
			m := &lyingModel{usage: usage}
			s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(m, &sampling.Limits{TokensPerHour: 5000})})
			p := sampleParams("Hi")
			p.MaxTokens = 1500
			addAsk(t, s, p)
			a := openAsked(t, s, mcp.V2025_11_25, `{}`)
			refused := 0
			for range 20 {
				if strings.Contains(a.call("ask", `{}`, respondAda), "used up") {
					refused++
				}
			}
			if m.asked < 3 || m.asked > 6 || refused != 20-m.asked {
				t.Errorf("with %+v: the model was asked %d times and %d calls were refused", usage, m.asked, refused)
			}
		})
	}
}

// SECA-43: nobody gets more of the server's model by having many sessions.
func TestOwnModelAgainstManySessions(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		m := &lyingModel{usage: llm.Usage{Input: 10, Output: 1000}}
		webBubble(t, &mcpserver.Options{Model: sampling.NewModel(m, &sampling.Limits{TokensPerHour: 5000})}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
			p := sampleParams("Hi")
			p.MaxTokens = 1500
			addAsk(t, s, p)
			refused := 0
			for range 20 {
				w := newWeb(t, client, v)
				w.open()
				frame := `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"ask","arguments":{}}}`
				if v.Era() == mcp.EraModern {
					frame = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"ask","arguments":{},"_meta":{` + modernMeta + `}}}`
				}
				if r := w.post(frame); strings.Contains(r.String(), "used up") {
					refused++
				} else if r.status != 200 {
					t.Fatalf("got %s", r)
				}
			}
			if m.asked < 3 || m.asked > 6 || refused != 20-m.asked {
				t.Errorf("%s: the model was asked %d times and %d calls were refused", v, m.asked, refused)
			}
		})
	}
}
