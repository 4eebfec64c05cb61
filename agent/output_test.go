package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

func TestUnfence(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{"a":1}`, `{"a":1}`},
		{"\n {\"a\":1} \n", `{"a":1}`},
		{"```json\n{\"a\":1}\n```", `{"a":1}`},
		{"```JSON\r\n{\"a\":1}\r\n```\n", `{"a":1}`},
		{"```\n[1]\n```", `[1]`},
		{"```{\"a\":1}```", `{"a":1}`},
		{"```json5\n1\n```", `1`},
		{"```json\n{\"code\":\"```\"}\n```", "{\"code\":\"```\"}"},
		{"```\n```json\n1\n```\n```", "```json\n1\n```"}, // one fence, and no more
		{"Here it is:\n```json\n1\n```", "Here it is:\n```json\n1\n```"},
		{"```", "```"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := agent.Unfence(tt.text); got != tt.want {
			t.Errorf("Unfence(%q): got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// invoice is an answer of real size.
type invoice struct {
	Number string `json:"number"`
	Seller party  `json:"seller"`
	Buyer  party  `json:"buyer"`
	Lines  []struct {
		Text  string  `json:"text"`
		Count int     `json:"count"`
		Price float64 `json:"price"`
	} `json:"lines"`
	Paid bool    `json:"paid"`
	Note *string `json:"note"`
}

type party struct {
	Name string `json:"name"`
	City string `json:"city"`
}

const invoiceSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object", "additionalProperties": false,
	"required": ["number", "seller", "buyer", "lines", "paid", "note"],
	"properties": {
		"number": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
		"seller": {"$ref": "#/$defs/party"}, "buyer": {"$ref": "#/$defs/party"},
		"lines": {"type": "array", "minItems": 1, "maxItems": 200, "items": {
			"type": "object", "required": ["text", "count", "price"], "additionalProperties": false,
			"properties": {"text": {"type": "string", "maxLength": 80}, "count": {"type": "integer", "minimum": 1}, "price": {"type": "number"}}}},
		"paid": {"type": "boolean"},
		"note": {"anyOf": [{"type": "string"}, {"type": "null"}]}
	},
	"$defs": {"party": {"type": "object", "required": ["name", "city"], "additionalProperties": false,
		"properties": {"name": {"type": "string", "minLength": 1}, "city": {"type": "string"}}}}
}`

func goodInvoice(lines int) string {
	var all []string
	for i := range lines {
		all = append(all, fmt.Sprintf(`{"text":"part %d","count":%d,"price":1.5}`, i, i+1))
	}
	return `{"number":"AB-1234","seller":{"name":"Ada","city":"London"},"buyer":{"name":"Bob","city":"Rome"},"lines":[` +
		strings.Join(all, ",") + `],"paid":true,"note":null}`
}

// TestOutputOfRealSize: an answer that misses a schema of real size is told where, twice at the
// most; one that fits is decoded.
func TestOutputOfRealSize(t *testing.T) {
	good := goodInvoice(200)
	bad := strings.Replace(good, `"count":7,`, `"count":"seven",`, 1)
	tests := []struct {
		name    string
		answers []string
		repairs []string // what each repair turn is told, in parts
		ok      bool
	}{
		{"at once", []string{good}, nil, true},
		{"fenced", []string{"```json\n" + good + "\n```"}, nil, true},
		{"repaired", []string{bad, good}, []string{"/lines/6/count"}, true},
		{"no JSON, then fenced", []string{"Sure! Here you are.", "```\n" + good + "\n```"}, []string{"not JSON"}, true},
		{"never", []string{bad, good + "}", "{}", good}, []string{"/lines/6/count", "not JSON"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var turns []llmtest.Turn
				for _, a := range tt.answers {
					turns = append(turns, llmtest.Say(a))
				}
				model := llmtest.Script(turns...)
				rt := open(t, &agent.Options{Model: model})
				a := define(t, rt, "a", &agent.Config{Output: json.RawMessage(invoiceSchema)})
				res, err := begin(t, a, "r").Wait(t.Context())
				if (err == nil) != tt.ok {
					t.Fatalf("Wait: %v", err)
				}
				for i, want := range tt.repairs {
					msgs := model.Requests()[i+1].Messages
					if got := msgs[len(msgs)-1].Content.Text(); !strings.Contains(got, want) {
						t.Errorf("repair %d: got %q, want %q", i, got, want)
					}
				}
				if !tt.ok {
					return
				}
				got, err := agent.Into[invoice](res)
				if err != nil || len(got.Lines) != 200 || got.Lines[6].Count != 7 || got.Buyer.City != "Rome" || got.Note != nil {
					t.Errorf("Into: %+v, %v", got, err)
				}
			})
		})
	}
}

// TestGuardEvents: what guards do is told to those who watch, and a schema binds a
// guard's answer too.
func TestGuardEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mask := agent.Guard{Name: "mask", AfterTool: func(_ context.Context, r *agent.GuardReturn) agent.GuardResult {
			r.Result.Content = mcp.Contents{mcp.Text("****")}
			return agent.Change("a number")
		}, Final: func(_ context.Context, a *agent.GuardAnswer) agent.GuardResult {
			if a.Text == "1" {
				return agent.Refuse("More, please.")
			}
			return agent.GuardResult{}
		}}
		rt := open(t, &agent.Options{Model: llmtest.Script(call("double", in{1}), llmtest.Say("1"), llmtest.Say("2"))})
		a := define(t, rt, "a", &agent.Config{Tools: []agent.Tool{double}, Guards: []agent.Guard{mask}})
		run := begin(t, a, "r")
		var got []string
		var key string
		for ev := range run.Events(t.Context()) {
			switch ev := ev.(type) {
			case agent.ToolStarted:
				key = ev.Key
			case agent.GuardActed:
				got = append(got, fmt.Sprint(ev.Guard, " ", ev.Point, " ", ev.Action, " ", ev.Text, " ", ev.Key == key))
			case agent.ToolResult:
				if ev.Result.Content.Text() != "****" {
					t.Errorf("result: %q", ev.Result.Content.Text())
				}
			}
		}
		if want := []string{"mask after tool changed a number true", "mask final refused More, please. false"}; !slices.Equal(got, want) {
			t.Errorf("events: got %q, want %q", got, want)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "2" {
			t.Errorf("Wait: %+v, %v", res, err)
		}
	})
}

// small is a model that says how much it takes.
type small struct{ llm.Model }

func (small) ContextLength() int { return 1500 }

// TestContextOfTheModel: a model that says how much it takes is given no more.
func TestContextOfTheModel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		read := agent.Func("read", "Reads.", func(_ context.Context, in in) (string, error) { return strings.Repeat("word ", 400), nil })
		var turns []llmtest.Turn
		for i := range 6 {
			turns = append(turns, call("read", in{i}))
		}
		model := llmtest.Script(append(turns, llmtest.Say("ok"))...)
		rt := open(t, &agent.Options{Model: small{model}, Tools: []agent.Tool{read}})
		run := start(t, rt, "r")
		cuts := 0
		for ev := range run.Events(t.Context()) {
			if cut, ok := ev.(agent.HistoryCut); ok {
				cuts++
				if cut.After >= cut.Before || cut.Results == 0 {
					t.Errorf("cut: %+v", cut)
				}
			}
		}
		if cuts == 0 {
			t.Error("nothing was cut")
		}
		for i, req := range model.Requests() {
			if n := llm.EstimateTokens(req); n > 1500 {
				t.Errorf("request %d: %d tokens", i, n)
			}
		}
	})
}

// restarts is a model that breaks off and begins again, and says which it is.
type restarts struct{}

func (restarts) Name() string { return "restarts" }

func (restarts) Stream(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		o := llm.ObserverOf(ctx)
		o.Chose(llm.Choice{Model: "one", Reason: "the first"})
		if !yield(llm.TextDelta{Text: "Wrong"}, nil) {
			return
		}
		if o.Restart == nil {
			yield(nil, errors.New("there is nobody who restarts"))
			return
		}
		o.Restart()
		o.Chose(llm.Choice{Model: "two", Reason: "the other", Fallback: 1})
		_ = yield(llm.TextDelta{Text: "Right"}, nil) && yield(llm.Finish{Reason: llm.FinishStop}, nil)
	}
}

// TestTurnRestarted: readers are told that what they had is void, and which model it is;
// those who read it from the store have only what counts.
func TestTurnRestarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		in := func(s store.Store) *agent.Run {
			run := start(t, open(t, &agent.Options{Model: restarts{}, Store: s}), "r")
			if res, err := run.Wait(t.Context()); err != nil || res.Text != "Right" {
				t.Fatalf("Wait: %+v, %v", res, err)
			}
			return run
		}
		tell := func(run *agent.Run) []string {
			var out []string
			for ev, err := range run.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				switch ev := ev.(type) {
				case agent.Text:
					out = append(out, ev.Delta)
				case agent.TurnRestarted:
					out = append(out, fmt.Sprint("restarted ", ev.Turn))
				case agent.ModelChosen:
					out = append(out, fmt.Sprintf("%s: %s (%d)", ev.Model, ev.Reason, ev.Fallback))
				}
			}
			return out
		}
		if got, want := tell(in(nil)), []string{"one: the first (0)", "Wrong", "restarted 1", "two: the other (1)", "Right"}; !slices.Equal(got, want) {
			t.Errorf("in memory: got %q, want %q", got, want)
		}
		if got, want := tell(in(s)), []string{"two: the other (1)", "Right"}; !slices.Equal(got, want) {
			t.Errorf("nobody read it at the time: got %q, want %q", got, want)
		}
		later := open(t, &agent.Options{Model: restarts{}, Store: s})
		if got, want := tell(start(t, later, "r")), []string{"two: the other (1)", "Right"}; !slices.Equal(got, want) {
			t.Errorf("from the store: got %q, want %q", got, want)
		}
	})
}
