package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store/memstore"
)

// What is cut is summed up by a model on the run's account, and where that has no room
// for it the run goes on without words.
func TestSummaryModel(t *testing.T) {
	read := agent.Func("read", "Reads a page.", func(_ context.Context, in in) (string, error) {
		return strings.Repeat("word ", 200) + fmt.Sprint(in.N), nil
	})
	for _, tt := range []struct {
		name   string
		price  llm.Money // of a million tokens of the one who sums up
		summed bool      // the limit of money has room for it
	}{
		{"with room", llm.Unit, true},
		{"without", 1000 * llm.Unit, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var turns []llmtest.Turn
				for n := range 8 {
					turns = append(turns, call("read", in{n}))
				}
				notes := make([]llmtest.Turn, 8)
				for i := range notes {
					notes[i] = llmtest.Say("NOTES")
				}
				summary := llmtest.Script(notes...)
				model := llmtest.Script(append(turns, llmtest.Say("done"))...)
				s := memstore.New(nil)
				rt := open(t, &agent.Options{Store: s, Model: model, Prices: map[string]llm.Price{
					model.Name(): {}, "notes": {Input: tt.price, Output: tt.price}}})
				a, err := rt.Agent("agent", &agent.Config{Tools: []agent.Tool{read}, ContextLength: 1200, MaxTokens: 100,
					SummaryModel: named{summary, "notes"}, Limits: agent.Limits{Cost: llm.Unit / 100}})
				if err != nil {
					t.Fatal(err)
				}
				run, err := a.Start(t.Context(), "go", nil)
				if err != nil {
					t.Fatal(err)
				}
				cuts, told := 0, 0
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if cut, ok := ev.(agent.HistoryCut); ok {
						cuts++
						if cut.Summary == "NOTES" {
							told++
						}
					}
				}
				res, err := run.Wait(t.Context())
				asked := len(summary.Requests())
				wantJournalled(t, s, run.ID(), runlog.SpentSummary, asked)
				if cuts == 0 || (told == cuts) != tt.summed {
					t.Errorf("%d cuts, %d with notes", cuts, told)
				}
				if err != nil || res.Text != "done" || (asked == cuts) != tt.summed || res.Spent.ModelCalls != 9+asked || (res.Spent.Cost > 0) != tt.summed {
					t.Errorf("got %+v, %v; %d summaries of %d cuts", res, err, asked, cuts)
				}
				if asked > 0 && !strings.Contains(summary.Requests()[0].Messages[0].Content.Text(), "result: word word") {
					t.Errorf("it was given %.200q", summary.Requests()[0].Messages[0].Content.Text())
				}
			})
		})
	}
}

type named struct {
	llm.Model
	name string
}

func (m named) Name() string { return m.name }

// A limit of money needs the price of the one who sums up, too.
func TestSummaryModelWithoutPrice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := llmtest.Script()
		rt := open(t, &agent.Options{Model: model, Prices: map[string]llm.Price{model.Name(): {}}})
		_, err := rt.Agent("agent", &agent.Config{SummaryModel: named{model, "notes"}, Limits: agent.Limits{Cost: 1}})
		var missing *agent.NoPriceError
		if !errors.As(err, &missing) || missing.Model != "notes" {
			t.Errorf("Agent: got %v, want that the price of notes is missing", err)
		}
	})
}
