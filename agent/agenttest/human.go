package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// FakeHuman is a scripted human, who answers questions of runs and servers. Make it with
// [Human]. It may be used by many goroutines at once.
type FakeHuman struct {
	mu      sync.Mutex // guards the fields below: every run of the test asks on a goroutine of its own, also outside of all actors
	tb      testing.TB // of the runtime that it answers for; nil before
	answers []*Answer  // not used up
	asked   []agent.Ask
}

// Human returns a scripted human with these answers. A question takes the first one that
// fits it and is not used up, so that answers that fit everything are given in their order.
// A question without an answer fails the test and is declined; so does, at the end of the
// test, an answer without its question. Pages that are open ([agent.KindPage]), and logins
// ([agent.KindLogin]), take only answers of their kind, and wait without one.
func Human(answers ...Answer) *FakeHuman {
	h := new(FakeHuman)
	for _, a := range answers {
		h.answers = append(h.answers, &a)
	}
	return h
}

// Asked returns the questions so far. Of questions outside of all runs only the server's
// part is set.
func (h *FakeHuman) Asked() []agent.Ask {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]agent.Ask(nil), h.asked...)
}

// OnAsk is an [agent.AskFunc].
func (h *FakeHuman) OnAsk(_ context.Context, ask agent.Ask) (agent.Decision, error) {
	a := h.take(&ask)
	if a == nil && awaited(ask.Kind) { // it waits by itself
		return agent.Decision{}, nil
	}
	if a == nil {
		h.fail("the human has no answer to a question of the %s", describe(&ask))
		return agent.Decline("the test has no answer to this question"), nil
	}
	d, err := a.decide(&ask)
	if err != nil {
		h.fail("answering a question of the %s: %v", describe(&ask), err)
	}
	return d, err
}

// Decide implements [mcpclient.Human], for questions of servers outside of all runs. Only
// [Fill], [Decline] and, for questions other than forms, [Accept] answer those.
func (h *FakeHuman) Decide(_ context.Context, q *mcpclient.Ask) (*mcpclient.Decision, error) {
	ask := agent.Ask{ID: q.ID, Kind: q.Kind.String(), Server: q.Server, Origin: q.Origin, Hash: q.Hash, Expires: q.Expires, Question: q}
	a := h.take(&ask)
	switch {
	case a == nil:
		h.fail("the human has no answer to a question of the %s", describe(&ask))
		return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
	case a.unprompted == nil:
		h.fail("the answer to a question of the %s can only be given in a run", describe(&ask))
		return &mcpclient.Decision{Action: mcp.ActionCancel}, nil
	}
	return a.unprompted()
}

// take finds the answer to a question, nil if there is none.
func (h *FakeHuman) take(ask *agent.Ask) *Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, *ask)
	for i, a := range h.answers {
		if !a.fits(ask) {
			continue
		}
		a.given = true
		if !a.always {
			h.answers = append(h.answers[:i:i], h.answers[i+1:]...)
		}
		return a
	}
	return nil
}

// start has the human answer for a test from now on.
func (h *FakeHuman) start(t testing.TB) {
	h.mu.Lock()
	h.tb = t
	h.mu.Unlock()
	t.Cleanup(func() { // after the runtime was closed
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, a := range h.answers {
			if !a.given {
				t.Errorf("the human's answer to %s was not asked for", a.question())
			}
		}
	})
}

func (h *FakeHuman) fail(format string, args ...any) {
	h.mu.Lock()
	t := h.tb
	h.mu.Unlock()
	if t != nil {
		t.Errorf(format, args...)
	}
}

// Answer is one answer of a [FakeHuman]. It is a value: methods return a changed copy.
type Answer struct {
	kind, server, tool string // of the questions that it fits; empty for any
	always             bool
	given              bool

	decide     func(*agent.Ask) (agent.Decision, error)
	unprompted func() (*mcpclient.Decision, error) // outside of runs; nil if it cannot be given there
}

// Accept accepts a question, once, with its defaults.
func Accept() Answer {
	return Answer{
		decide:     func(*agent.Ask) (agent.Decision, error) { return agent.Accept().By("agenttest"), nil },
		unprompted: func() (*mcpclient.Decision, error) { return &mcpclient.Decision{Action: mcp.ActionAccept}, nil },
	}
}

// Decline declines, for a reason that the model of the run reads.
func Decline(reason string) Answer {
	return Answer{
		decide:     func(*agent.Ask) (agent.Decision, error) { return agent.Decline(reason).By("agenttest"), nil },
		unprompted: func() (*mcpclient.Decision, error) { return &mcpclient.Decision{Action: mcp.ActionDecline}, nil },
	}
}

// Fill fills in a server's form, and fits forms only.
func Fill(values map[string]any) Answer {
	return Answer{
		kind:       agent.KindForm,
		decide:     func(*agent.Ask) (agent.Decision, error) { return agent.Fill(values) },
		unprompted: func() (*mcpclient.Decision, error) { return filled(values) },
	}
}

// Decide has a function answer, for all that the other answers cannot express: it may look at
// the question, and fails the test by an error. It may be called by several goroutines.
func Decide(f func(ask *agent.Ask) (agent.Decision, error)) Answer { return Answer{decide: f} }

// Kind makes the answer fit questions of this kind only, such as [agent.KindTool].
func (a Answer) Kind(kind string) Answer {
	a.kind = kind
	return a
}

// Server makes the answer fit questions about this server only.
func (a Answer) Server(name string) Answer {
	a.server = name
	return a
}

// Tool makes the answer fit questions about this tool only, by the name that its server has
// for it or the one that the model knows.
func (a Answer) Tool(name string) Answer {
	a.tool = name
	return a
}

// Always keeps the answer from being used up: it is for any number of questions, none too.
func (a Answer) Always() Answer {
	a.always, a.given = true, true
	return a
}

func (a *Answer) fits(ask *agent.Ask) bool {
	if awaited(ask.Kind) && a.kind != ask.Kind {
		return false
	}
	tool := a.tool == "" || a.tool == ask.Tool || strings.HasSuffix(ask.Tool, "__"+a.tool)
	return tool && (a.kind == "" || a.kind == ask.Kind) && (a.server == "" || a.server == ask.Server)
}

// awaited reports that a question is settled by what happens elsewhere.
func awaited(kind string) bool { return kind == agent.KindPage || kind == agent.KindLogin }

// question describes the questions that the answer is for.
func (a *Answer) question() string {
	var words []string
	for _, w := range [][2]string{{"kind", a.kind}, {"server", a.server}, {"tool", a.tool}} {
		if w[1] != "" {
			words = append(words, fmt.Sprintf("%s %q", w[0], w[1]))
		}
	}
	if len(words) == 0 {
		return "any question"
	}
	return "a question of the " + strings.Join(words, ", ")
}

// describe is a question as the test's log shows it, behind "of the".
func describe(ask *agent.Ask) string {
	who := fmt.Sprintf("kind %q", ask.Kind)
	if ask.Server != "" {
		who += fmt.Sprintf(", server %q", ask.Server)
	}
	if ask.Tool != "" {
		who += fmt.Sprintf(", tool %q", ask.Tool)
	}
	switch {
	case ask.Limit != nil:
		return fmt.Sprintf("%s: %s more of %s, of which %s are spent?", who, ask.Limit.More, ask.Limit.Limit, ask.Limit.Spent)
	case ask.Job != nil:
		return fmt.Sprintf("%s: shall the job %s go on? %s", who, ask.Job.Job, ask.Job.Why)
	case ask.Kind == agent.KindOutcome:
		return fmt.Sprintf("%s: what came of the call with %s?", who, ask.Arguments)
	case ask.Question != nil:
		return fmt.Sprintf("%s: %q", who, ask.Question.Message)
	}
	return fmt.Sprintf("%s: may it be called with %s?", who, ask.Arguments)
}

// filled is a form with these values.
func filled(values map[string]any) (*mcpclient.Decision, error) {
	content := make(map[string]json.RawMessage, len(values))
	for name, v := range values {
		raw, err := jsonx.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("the value of %q: %w", name, err)
		}
		content[name] = raw
	}
	return &mcpclient.Decision{Action: mcp.ActionAccept, Content: content}, nil
}
