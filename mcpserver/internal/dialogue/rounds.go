package dialogue

import (
	"encoding/json"
	"slices"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// rounds are what a client of 2026-07-28 was asked and has answered: what its ticket says.
// They belong to the goroutine whose turn it is to ask.
type rounds struct {
	call    string          // its id, in the tickets; empty before the first
	answers []ticket.Answer // of the rounds before
	next    int             // of them, what was handed out
	round   int
	asked   []ticket.Question // in this round, of a handler that runs again; else nil
	got     map[string]json.RawMessage
	waits   int
}

// replay hands out the answers that there are, of a handler that runs again, and
// returns the questions that are left. Questions are matched by key, order and digest.
func (t *rounds) replay(qs []*questions.Question) (open []*questions.Question, err error) {
	for _, q := range qs {
		if t.next < len(t.answers) {
			a := t.answers[t.next]
			if !q.Is(a.Question) {
				return nil, mismatch(q, a.Question)
			}
			t.next++
			q.Take(a.ID)
			if err := q.Settle(a.Result); err != nil {
				return nil, err
			}
			continue
		}
		open = append(open, q)
	}
	if len(t.asked) == 0 || len(open) == 0 {
		return open, nil
	}
	if len(open) != len(t.asked) {
		return nil, mismatch(open[0], t.asked[0])
	}
	for i, q := range open {
		if !q.Is(t.asked[i]) {
			return nil, mismatch(q, t.asked[i])
		}
		q.Take(t.asked[i].ID)
	}
	return t.settle(qs)
}

// mismatch says that a handler has not asked again what it had asked (MRTR-30).
func mismatch(q *questions.Question, was ticket.Question) error {
	return mcp.Errorf(mcp.CodeInternal, "the handler asks %q where it had asked %q: its questions must follow from its arguments and earlier answers",
		clip.Name(q.Key), clip.Name(was.Key))
}

// begin opens a round with the questions.
func (t *rounds) begin(qs []*questions.Question, got map[string]json.RawMessage) {
	for _, q := range qs {
		t.asked = append(t.asked, q.Entry())
	}
	t.got = got
}

// settle hands out the answers of the open round. When all are there it is over;
// else those that are missing are returned, to be asked again (MRTR-05).
func (t *rounds) settle(qs []*questions.Question) (open []*questions.Question, err error) {
	for _, e := range t.asked {
		i := slices.IndexFunc(qs, func(q *questions.Question) bool { return q.Key == e.Key })
		raw, there := t.got[e.Key]
		if !there {
			open = append(open, qs[i])
			continue
		}
		if err := qs[i].Settle(raw); err != nil {
			return nil, err
		}
		qs[i].Fresh = true
	}
	if len(open) > 0 {
		return open, nil
	}
	for _, e := range t.asked {
		e.Schema = nil
		t.answers = append(t.answers, ticket.Answer{Question: e, Result: t.got[e.Key]})
	}
	t.next, t.asked, t.got, t.round = len(t.answers), nil, nil, t.round+1
	return nil, nil
}

// reopen makes a round of questions that are answered: what they were asked for is not
// done yet.
func (t *rounds) reopen(qs []*questions.Question) {
	t.got, t.asked = make(map[string]json.RawMessage, len(qs)), nil
	for _, a := range t.answers[len(t.answers)-len(qs):] {
		t.asked, t.got[a.Key] = append(t.asked, a.Question), a.Result
	}
	t.answers = t.answers[:len(t.answers)-len(qs)]
	t.next = len(t.answers)
}
