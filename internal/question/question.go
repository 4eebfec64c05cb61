// Package question reads the questions that wait for a person, as any page or command shows
// them, and makes the decisions that a person's answer to each kind is.
package question

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// View is a question as lists and pages show it, and as JSON says it. What it says about who
// asks comes from the configuration, never from the server (SECA-34).
type View struct {
	ID     string          `json:"id"`
	Short  string          `json:"short"` // a shorter name for it, which the caller sets
	Kind   string          `json:"kind"`  // tool, form, url, page, login, sampling, sample, definition, limit, outcome or job
	Status store.AskStatus `json:"status"`
	Run    string          `json:"run,omitempty"`
	Path   []string        `json:"path,omitempty"` // agents from the root to the one that waits
	Server string          `json:"server,omitempty"`
	Origin string          `json:"origin,omitempty"`
	Trust  string          `json:"trust,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	// Calls are those under way that a server's question may belong to.
	Calls []mcpclient.AskCall `json:"calls,omitempty"`
	// Notes say what is in doubt about the question.
	Notes []string `json:"notes,omitempty"`

	Arguments json.RawMessage      `json:"arguments,omitempty"` // of a call that asks first: exactly what would be sent
	Tainted   bool                 `json:"tainted,omitzero"`    // the call may carry private data out (SECA-44)
	Message   string               `json:"message,omitempty"`   // the server's words
	Fields    []Field              `json:"fields,omitempty"`    // of a form
	URL       string               `json:"url,omitempty"`       // of a page to be opened
	Limit     *runlog.LimitPayload `json:"limit,omitempty"`
	Job       *runlog.JobPayload   `json:"job,omitempty"`   // that gets no further
	Login     *mcpclient.LoginView `json:"login,omitempty"` // that is waited for
	Sent      time.Time            `json:"sent,omitzero"`   // when the call was made whose outcome is unknown
	Why       string               `json:"why,omitempty"`   // its outcome is unknown

	Hash string `json:"hash,omitempty"` // of what is shown: see "inbox answer --hash"
	// Changed says that what is stored is not what was asked, or cannot be read: it can
	// only be declined (SECA-41).
	Changed bool      `json:"changed,omitzero"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	By      string    `json:"by,omitempty"` // who has decided
	At      time.Time `json:"at,omitzero"`

	Asked *mcpclient.Ask `json:"-"` // what a server asks; nil for others
	Form  *form.Form     `json:"-"` // nil for others
	Bound string         `json:"-"` // exactly this tool of exactly this server; empty if it cannot be allowed for good
	Bad   error          `json:"-"` // why it cannot be shown; nil if it can
}

// Field is a field of a form.
type Field struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Takes       string          `json:"takes"` // in words, such as "whole number"
	Format      string          `json:"format,omitempty"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default,omitempty"`
	Options     []Option        `json:"options,omitempty"`
	Secret      bool            `json:"secret,omitzero"` // it looks like one, which forms must not ask for
}

// Option is one of the values that a field takes.
type Option struct {
	Value string `json:"value"`
	Title string `json:"title"`
}

// Read reads an ask. One that cannot be read, or is not what was asked, says so in Bad.
func Read(row *store.Ask) View {
	v := View{ID: row.ID, Kind: row.Kind, Status: row.Status, Run: row.Run, Path: row.Path,
		Server: row.Server, Origin: row.Origin, Trust: row.Trust, Tool: row.Tool, Hash: row.Hash,
		Created: row.Created, Expires: row.Expires, By: row.By, At: row.At}
	switch row.Kind {
	case runlog.AskKind:
		var p runlog.ApprovalPayload
		if v.Bad = readPayload(row, &p); v.Bad == nil {
			v.Tool, v.Server, v.Arguments, v.Tainted = cmp.Or(p.Tool, v.Tool), p.Server, p.Arguments, p.Tainted
			if !p.Again {
				v.Bound = p.Bound()
			}
			if p.Note != "" {
				v.Notes = append(v.Notes, p.Note)
			}
		}
	case runlog.AskLimit:
		p := new(runlog.LimitPayload)
		if v.Bad = readPayload(row, p); v.Bad == nil {
			v.Limit = p
		}
	case runlog.AskJob:
		p := new(runlog.JobPayload)
		if v.Bad = readPayload(row, p); v.Bad == nil {
			v.Job = p
		}
	case runlog.AskOutcome:
		var p runlog.OutcomePayload
		if v.Bad = readPayload(row, &p); v.Bad == nil {
			v.Tool, v.Server, v.Arguments, v.Sent = cmp.Or(p.Tool, v.Tool), p.Server, p.Arguments, p.Sent
			v.Why = cmp.Or(p.Why, runlog.ProcessEnded)
		}
	default:
		v.Bad = v.readQuestion(row)
	}
	v.Changed = v.Bad != nil
	return v
}

// readPayload reads what the run asks, if it is what was asked.
func readPayload(row *store.Ask, into any) error {
	if err := jsonx.Unmarshal(row.Payload, into); err != nil {
		return fmt.Errorf("what is stored of it cannot be read: %w", err)
	}
	if !runlog.IsHash(row.Hash, row.Payload) {
		return errNotAsked
	}
	return nil
}

// readQuestion reads what a server asks.
func (v *View) readQuestion(row *store.Ask) error {
	q := new(mcpclient.Ask)
	if err := jsonx.Unmarshal(row.Payload, q); err != nil {
		return fmt.Errorf("what is stored of it cannot be read: %w", err)
	}
	if hash, err := q.ContentHash(); err != nil || hash != row.Hash {
		return errNotAsked
	}
	q.ID, q.Server, q.Origin, q.Path, q.Expires = row.ID, row.Server, row.Origin, row.Path, row.Expires
	v.Asked, v.Message, v.Calls, v.Notes, v.Login = q, q.Message, q.Calls, q.Notes, q.Login
	if q.URL != nil {
		v.URL = q.URL.URL
	}
	if q.Form == nil {
		return nil
	}
	f, err := form.Parse(q.Form.RequestedSchema, mcp.Latest)
	if err != nil {
		return err
	}
	v.Form = f
	for i := range f.Fields {
		field := &f.Fields[i]
		fv := Field{Name: field.Name, Title: field.Title, Description: field.Description, Takes: field.Kind.String(),
			Format: field.Format, Required: field.Required, Default: field.Default, Secret: field.Secret}
		for _, o := range field.Options {
			fv.Options = append(fv.Options, Option(o))
		}
		v.Fields = append(v.Fields, fv)
	}
	return nil
}

// errNotAsked is of an ask whose payload is another one than was asked (SECA-41).
var errNotAsked = errors.New("what is stored of it is not what was asked: it can only be denied")

// Who is who asks, as the configuration names it.
func (v *View) Who() string {
	if v.Kind == runlog.AskJob {
		return "its worker"
	}
	who := cmp.Or(v.Server, "the program")
	if len(v.Path) > 0 {
		who += " for " + strings.Join(v.Path, " > ")
	}
	return who
}

// What is the question in one line.
func (v *View) What() string {
	switch {
	case v.Bad != nil:
		return v.Bad.Error()
	case v.Limit != nil:
		return fmt.Sprintf("%s more %s, after %s of %s", v.Limit.More, v.Limit.Limit, v.Limit.Spent, v.Limit.Max)
	case v.Job != nil:
		return fmt.Sprintf("shall the job %s go on? %s", v.Job.Job, v.Job.Why)
	case v.Kind == runlog.AskKind:
		return v.Tool + " " + string(v.Arguments)
	case v.Kind == runlog.AskOutcome:
		return "did it happen? " + v.Tool + " " + string(v.Arguments)
	case v.Login != nil:
		return "waiting for a login: " + cmp.Or(v.Login.Command, v.Login.Resource)
	case v.Kind == runlog.AskPage:
		return "waiting for the page " + v.URL
	case v.URL != "":
		return v.URL
	case v.Message != "":
		return v.Message
	}
	return cmp.Or(v.Tool, "-")
}
