package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

type placeIn struct {
	Place string `json:"place"`
}

type weatherOut struct {
	Sky  string `json:"sky"`
	Warm bool   `json:"warm"`
}

// planner is what the tools of a loop have done.
type planner struct {
	weather, trains atomic.Int64

	mu    sync.Mutex
	ended []*sampling.Result
	errs  []error // of each loop in the order in which they began; nil until it returns
}

// tools are those of the loop: one with structured results, one with text.
func (p *planner) tools() []*sampling.Tool {
	return []*sampling.Tool{
		sampling.Func(&mcp.Tool{Name: "weather", Description: "the weather of a place"}, func(_ context.Context, in placeIn) (weatherOut, error) {
			p.weather.Add(1)
			return weatherOut{Sky: "clear over " + in.Place, Warm: true}, nil
		}),
		sampling.Func(&mcp.Tool{Name: "trains", InputSchema: json.RawMessage(`{"type":"object","properties":{"place":{"type":"string","maxLength":20}},"required":["place"]}`)},
			func(_ context.Context, in placeIn) (string, error) {
				p.trains.Add(1)
				return "a train to " + in.Place + " at 9:05", nil
			}),
	}
}

// question is what the loops of these tests ask first.
func question() *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, SystemPrompt: "You plan trips.", Messages: []mcp.SamplingMessage{userText("Where to?")}}
}

// addLoop adds a tool "plan" that runs a loop.
func addLoop(t testing.TB, s *mcpserver.Server, tools []*sampling.Tool, o *sampling.Options, more ...func(ctx context.Context, req *mcpserver.ToolRequest) error) *planner {
	t.Helper()
	p := &planner{}
	if tools == nil {
		tools = p.tools()
	}
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "plan"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		for _, before := range more {
			if err := before(ctx, req); err != nil {
				return "", err
			}
		}
		n := p.begin()
		r, err := sampling.Loop(ctx, req, "plan", question(), tools, o)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.errs[n] = err
		if err != nil {
			return "", err
		}
		p.ended = append(p.ended, r)
		return r.Text(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// result is what the only loop that has ended with an answer has returned.
func (p *planner) result(t testing.TB) *sampling.Result {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ended) != 1 {
		t.Fatalf("got %d loops that have ended with an answer, want 1", len(p.ended))
	}
	return p.ended[0]
}

// begin returns the index of a new loop in errs. A suspended handler may return after the
// one of the next round (see TestNextRunOverlaps), so the order of the returns says nothing.
func (p *planner) begin() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, nil)
	return len(p.errs) - 1
}

// lastError is what the loop that began last has returned.
func (p *planner) lastError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errs) == 0 {
		return nil
	}
	return p.errs[len(p.errs)-1]
}

// clientModel is the model of a client: it plays the turns by how many answers the
// question has in it already, as a model does that remembers nothing.
type clientModel struct {
	t     testing.TB
	turns []string
	asked []*mcp.CreateMessageParams
}

const tripCalls = `{"role":"assistant","model":"m","stopReason":"toolUse","content":[{"type":"text","text":"Let me see."},` +
	`{"type":"tool_use","id":"c1","name":"weather","input":{"place":"Oslo"},"_meta":{"com.example/cache":"hint"}},` +
	`{"type":"tool_use","id":"c2","name":"trains","input":{"place":"Oslo"}}]}`

const tripAnswer = `{"role":"assistant","model":"m","stopReason":"endTurn","content":{"type":"text","text":"Go to Oslo."}}`

// use is an answer that calls one tool.
func use(id, name, input string) string {
	return fmt.Sprintf(`{"role":"assistant","model":"m","stopReason":"toolUse","content":{"type":"tool_use","id":%q,"name":%q,"input":%s}}`, id, name, input)
}

func (m *clientModel) respond(method string, raw json.RawMessage) string {
	m.t.Helper()
	if method != mcp.MethodCreateMessage {
		return respondAda(method, raw)
	}
	p := new(mcp.CreateMessageParams)
	if err := mcp.Unmarshal(raw, p); err != nil {
		m.t.Errorf("question %s: %v", raw, err)
	} else if err := p.CheckToolBalance(); err != nil { // SAMP-20, SAMP-21, SAMP-26
		m.t.Errorf("question %s: %v", raw, err)
	}
	m.asked = append(m.asked, p)
	said := 0
	for _, one := range p.Messages {
		if one.Role == mcp.RoleAssistant {
			said++
		}
	}
	return m.turns[min(said, len(m.turns)-1)]
}

// toolResults are the texts of the tool results in the last message of a question.
func toolResults(t testing.TB, p *mcp.CreateMessageParams) (texts []string) {
	t.Helper()
	for _, c := range p.Messages[len(p.Messages)-1].Content {
		r, ok := c.(*mcp.ToolResultContent)
		if !ok {
			t.Fatalf("the last message holds a block %T", c)
		}
		text := r.Content.Text()
		if r.IsError {
			text = "isError " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// ownTrip is an own model that plays what clientModel does.
func ownTrip() *llmtest.Model {
	return llmtest.Script(
		llmtest.Join(llmtest.Say("Let me see."), llmtest.Calls(llmtest.Call("weather", `{"place":"Oslo"}`), llmtest.Call("trains", `{"place":"Oslo"}`))),
		llmtest.Say("Go to Oslo."),
	)
}

const withTools = `{"sampling":{"tools":{}},"elicitation":{"form":{}}}`

// eachLoop runs f in a bubble for each revision from oldest on, with handlers kept between
// rounds and not.
func eachLoop(t *testing.T, oldest mcp.Version, opts mcpserver.Options, caps string, f func(t *testing.T, s *mcpserver.Server, a *asked)) {
	t.Helper()
	for _, v := range mcp.Versions() {
		for _, noParking := range []bool{false, true} {
			if v < oldest || v.Era() == mcp.EraLegacy && noParking {
				continue
			}
			name := string(v)
			if noParking {
				name += ", run again"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := opts
					o.Rounds.NoParking = noParking
					s, _ := newServer(t, &o)
					f(t, s, openAsked(t, s, v, caps))
				})
			})
		}
	}
}

// hasAll reports whether all parts are in s.
func hasAll(s string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}
