package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/linediff"
	"github.com/troupe-dev/troupe/internal/question"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// maxListed bounds the lines of a list.
const maxListed = 100

// inboxPage is the list of what waits.
type inboxPage struct {
	Waiting []question.View
	Decided []question.View // the newest ones
	More    string          // where the next page begins; empty at the end
}

func (c *Console) inbox(v *visit) error {
	var p inboxPage
	rows, err := c.opts.Store.Asks(v.r.Context(), store.AskQuery{Status: store.AskPending, Limit: maxListed, After: v.r.URL.Query().Get("after")})
	if err != nil {
		return err
	}
	for i := range rows {
		p.Waiting = append(p.Waiting, question.Read(&rows[i]))
	}
	if len(rows) == maxListed {
		p.More = rows[len(rows)-1].Cursor()
	}
	all, err := c.opts.Store.Asks(v.r.Context(), store.AskQuery{Limit: 20})
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Status != store.AskPending {
			p.Decided = append(p.Decided, question.Read(&all[i]))
		}
	}
	return c.show(v, "inbox", view{Title: "Inbox", Live: "inbox", Body: p})
}

// askPage is one question, and the form to answer it.
type askPage struct {
	question.View
	Parts   []part          // what a server asks that has no form of its own
	Answer  []part          // of a model, before a server gets it
	Changes []linediff.Line // of a tool since it was accepted
	Whole   string          // all of that, as JSON
	Inputs  []input
	Run     *runLine // that waits; nil for none
	Action  bool     // the visitor may answer, and it waits
	Error   string   // why the answer that was sent does not count
	Kinds   kinds
}

// kinds says what the form of a question has.
type kinds struct{ Call, Outcome, Page, Limit, Job, Login, Sampling, Sample, Definition bool }

// input is a field of a form, with what is filled in.
type input struct {
	*form.Field
	Value    string
	Problem  string
	Selected map[string]bool
}

// ask is the page of a question.
func (c *Console) ask(v *visit) error {
	row, err := c.opts.Store.Ask(v.r.Context(), v.r.PathValue("ask"))
	if err != nil {
		return err
	}
	return c.showAsk(v, &row, nil, nil)
}

// showAsk shows a question; values are what was sent, and wrong is why it does not count.
func (c *Console) showAsk(v *visit, row *store.Ask, values map[string][]string, wrong error) error {
	p := askPage{View: question.Read(row), Action: row.Status == store.AskPending && v.role >= Answerer}
	p.Kinds = kinds{Call: p.Kind == runlog.AskKind, Outcome: p.Kind == runlog.AskOutcome, Page: p.Kind == runlog.AskPage && p.Login == nil, Limit: p.Limit != nil, Job: p.Kind == runlog.AskJob, Login: p.Login != nil}
	if p.Asked != nil && p.Form == nil && p.URL == "" && p.Login == nil {
		if err := p.tell(); err != nil {
			return err
		}
		p.Whole = indent(row.Payload)
	}
	if row.Run != "" {
		r, err := c.opts.Store.Run(v.r.Context(), row.Run)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil {
			line := lineOf(&r, time.Now())
			p.Run = &line
		}
	}
	problems := make(map[string]string)
	if content, ok := errors.AsType[*form.ContentError](wrong); ok {
		for _, problem := range content.Problems {
			problems[problem.Field] = problem.Message
		}
	}
	if wrong != nil {
		p.Error = wrong.Error()
	}
	if p.Form != nil {
		for i := range p.Form.Fields {
			p.Inputs = append(p.Inputs, inputOf(&p.Form.Fields[i], values, problems))
		}
	}
	status := http.StatusOK
	if wrong != nil {
		status = http.StatusUnprocessableEntity
	}
	if errors.Is(wrong, store.ErrSettled) || errors.Is(wrong, errChanged) {
		status = http.StatusConflict
	}
	c.render(v.w, v.r, status, "ask", view{Title: "Question", Visitor: v.name, Live: "ask=" + row.ID + "&shown=" + string(row.Status), Body: &p})
	return nil
}

func inputOf(f *form.Field, values map[string][]string, problems map[string]string) input {
	in := input{Field: f, Problem: problems[f.Name], Selected: make(map[string]bool)}
	sent, was := values["field."+f.Name]
	if !was && values == nil {
		in.Value = f.Show(f.Default)
		sent = nil
		if f.Kind == form.Choices || f.Kind == form.Choice {
			sent = defaults(f)
		}
	} else if len(sent) > 0 {
		in.Value = sent[0]
	}
	if f.Kind == form.String && f.Default != nil && !was && values == nil {
		in.Value, _ = jsonx.Text(f.Default)
	}
	for _, value := range sent {
		in.Selected[value] = true
	}
	return in
}

// defaults are the options that are chosen before a person has touched the form.
func defaults(f *form.Field) []string {
	if text, ok := jsonx.Text(f.Default); ok {
		return []string{text}
	}
	var several []string
	_ = jsonx.Unmarshal(f.Default, &several) // it was checked with the form
	return several
}

// errChanged is of an answer to another question than the one that waits (SECA-41).
var errChanged = errors.New("the question is another one than the page showed: read it again")

// answer decides a question.
func (c *Console) answer(v *visit) error {
	if err := v.r.ParseForm(); err != nil {
		c.say(v.w, v.r, http.StatusBadRequest, "The answer cannot be read: it has at most 1 MiB.")
		return nil
	}
	row, err := c.opts.Store.Ask(v.r.Context(), v.r.PathValue("ask"))
	if err != nil {
		return err
	}
	if row.Hash != v.r.PostForm.Get("hash") {
		return c.showAsk(v, &row, nil, errChanged)
	}
	q := question.Read(&row)
	d := q.Decline(v.r.PostForm.Get("reason"))
	if v.r.PostForm.Get("do") != "decline" {
		if d, err = accepted(&q, v.r.PostForm); err != nil {
			return c.showAsk(v, &row, v.r.PostForm, err)
		}
	}
	d.By = "console:" + v.name
	done, err := c.opts.Store.SettleAsk(v.r.Context(), row.ID, d)
	if errors.Is(err, store.ErrSettled) {
		return c.showAsk(v, &done, nil, fmt.Errorf("your answer does not count: %w", err))
	}
	if err != nil {
		return err
	}
	if c.opts.Wake != nil {
		c.opts.Wake()
	}
	http.Redirect(v.w, v.r, "/inbox/"+row.ID, http.StatusSeeOther)
	return nil
}

// accepted is the decision of a form that was sent.
func accepted(q *question.View, sent map[string][]string) (store.Decision, error) {
	get := func(name string) string {
		if all := sent[name]; len(all) > 0 {
			return all[0]
		}
		return ""
	}
	a := question.Answer{Scope: get("scope"), More: strings.TrimSpace(get("more")), Outcome: get("outcome"), Result: get("result"), Page: mcpclient.PageAction(get("page"))}
	if q.Form != nil {
		var err error
		if a.Content, err = contentOf(q.Form, sent); err != nil {
			return store.Decision{}, err
		}
	}
	return q.Accept(&a)
}

// contentOf reads the fields of a form. All that is wrong is told at once.
func contentOf(f *form.Form, sent map[string][]string) (map[string]json.RawMessage, error) {
	content, wrong := make(map[string]json.RawMessage), &form.ContentError{}
	for i := range f.Fields {
		field := &f.Fields[i]
		values, line := sent["field."+field.Name], ""
		if len(values) > 0 {
			line = values[0]
		}
		if field.Kind == form.Choices {
			raw, err := jsonx.Marshal(values)
			if err != nil {
				return nil, err
			}
			if values != nil || field.Required || field.Default != nil {
				content[field.Name] = raw
				if values == nil {
					content[field.Name] = json.RawMessage("[]")
				}
			}
			continue
		}
		raw, err := field.Parse(strings.ReplaceAll(line, "\r\n", "\n"))
		if err != nil {
			wrong.Problems = append(wrong.Problems, form.Problem{Field: field.Name, Message: err.Error()})
		} else if raw != nil {
			content[field.Name] = raw
		}
	}
	if len(wrong.Problems) > 0 {
		return nil, wrong
	}
	return content, nil
}
