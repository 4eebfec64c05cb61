package inbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// AskView is an ask as "inbox ls --json" prints it. What it says about who asks comes
// from the configuration, never from the server (SECA-34).
type AskView struct {
	ID     string          `json:"id"`
	Short  string          `json:"short"` // a shorter name for it
	Kind   string          `json:"kind"`  // tool, form, url, page, login, sampling, sample, definition, limit or outcome
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
	Fields    []fieldView          `json:"fields,omitempty"`    // of a form
	URL       string               `json:"url,omitempty"`       // of a page to be opened
	Limit     *runlog.LimitPayload `json:"limit,omitempty"`
	Login     *mcpclient.LoginView `json:"login,omitempty"` // that is waited for
	Sent      time.Time            `json:"sent,omitzero"`   // when the call was made whose outcome is unknown

	Hash string `json:"hash,omitempty"` // of what is shown: see "inbox answer --hash"
	// Changed says that what is stored is not what was asked, or cannot be read: it can
	// only be declined (SECA-41).
	Changed bool      `json:"changed,omitzero"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	By      string    `json:"by,omitempty"` // who has decided
	At      time.Time `json:"at,omitzero"`

	question *mcpclient.Ask // of a server; nil for others
	form     *form.Form
	bound    string // exactly this tool of exactly this server; empty if it cannot be allowed for good
	bad      error  // why it cannot be shown
}

// fieldView is a field of a form.
type fieldView struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Takes       string          `json:"takes"` // in words, such as "whole number"
	Format      string          `json:"format,omitempty"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default,omitempty"`
	Options     []optionView    `json:"options,omitempty"`
	Secret      bool            `json:"secret,omitzero"` // it looks like one, which forms must not ask for
}

type optionView struct {
	Value string `json:"value"`
	Title string `json:"title"`
}

// wholeAsk is what "inbox show --json" prints: the view, and what is stored.
type wholeAsk struct {
	AskView
	Payload json.RawMessage `json:"payload,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Scope   string          `json:"scope,omitempty"`
}

func (v AskView) whole(row *store.Ask) wholeAsk {
	return wholeAsk{v, row.Payload, row.Answer, row.Scope}
}

// viewOf reads an ask.
func viewOf(row *store.Ask) AskView {
	v := AskView{ID: row.ID, Short: env.Short(row.ID), Kind: row.Kind, Status: row.Status, Run: row.Run, Path: row.Path,
		Server: row.Server, Origin: row.Origin, Trust: row.Trust, Tool: row.Tool, Hash: row.Hash,
		Created: row.Created, Expires: row.Expires, By: row.By, At: row.At}
	switch row.Kind {
	case runlog.AskKind:
		var p runlog.ApprovalPayload
		if v.bad = readPayload(row, &p); v.bad == nil {
			v.Tool, v.Server, v.Arguments, v.Tainted = cmp.Or(p.Tool, v.Tool), p.Server, p.Arguments, p.Tainted
			if !p.Again {
				v.bound = p.Bound()
			}
		}
	case runlog.AskLimit:
		p := new(runlog.LimitPayload)
		if v.bad = readPayload(row, p); v.bad == nil {
			v.Limit = p
		}
	case runlog.AskOutcome:
		var p runlog.OutcomePayload
		if v.bad = readPayload(row, &p); v.bad == nil {
			v.Tool, v.Server, v.Arguments, v.Sent = cmp.Or(p.Tool, v.Tool), p.Server, p.Arguments, p.Sent
		}
	default:
		v.bad = v.readQuestion(row)
	}
	v.Changed = v.bad != nil
	return v
}

// readPayload reads what the run asks, if it is what was asked.
func readPayload(row *store.Ask, into any) error {
	if err := jsonx.Unmarshal(row.Payload, into); err != nil {
		return fmt.Errorf("what is stored of it cannot be read: %w", err)
	}
	if !sameHash(row) {
		return errNotAsked
	}
	return nil
}

// readQuestion reads what a server asks.
func (v *AskView) readQuestion(row *store.Ask) error {
	q := new(mcpclient.Ask)
	if err := jsonx.Unmarshal(row.Payload, q); err != nil {
		return fmt.Errorf("what is stored of it cannot be read: %w", err)
	}
	if hash, err := q.ContentHash(); err != nil || hash != row.Hash {
		return errNotAsked
	}
	q.ID, q.Server, q.Origin, q.Path, q.Expires = row.ID, row.Server, row.Origin, row.Path, row.Expires
	v.question, v.Message, v.Calls, v.Notes, v.Login = q, q.Message, q.Calls, q.Notes, q.Login
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
	v.form = f
	for i := range f.Fields {
		field := &f.Fields[i]
		fv := fieldView{Name: field.Name, Title: field.Title, Description: field.Description, Takes: field.Kind.String(),
			Format: field.Format, Required: field.Required, Default: field.Default, Secret: field.Secret}
		for _, o := range field.Options {
			fv.Options = append(fv.Options, optionView(o))
		}
		v.Fields = append(v.Fields, fv)
	}
	return nil
}

// errNotAsked is of an ask whose payload is another one than was asked (SECA-41).
var errNotAsked = fmt.Errorf("what is stored of it is not what was asked: it can only be denied")

// sameHash holds a payload against its hash, as the run has made it.
func sameHash(row *store.Ask) bool {
	canonical, err := jsonx.Canonical(row.Payload)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(canonical)
	return row.Hash == "sha256:"+hex.EncodeToString(sum[:])
}

// who is who asks, as the configuration names it.
func (v *AskView) who() string {
	who := cmp.Or(v.Server, "the program")
	if len(v.Path) > 0 {
		who += " for " + strings.Join(v.Path, " > ")
	}
	return who
}

// what is what is asked, in one line.
func (v *AskView) what() string {
	switch {
	case v.bad != nil:
		return v.bad.Error()
	case v.Limit != nil:
		return fmt.Sprintf("%s more %s, after %s of %s", v.Limit.More, v.Limit.Limit, v.Limit.Spent, v.Limit.Max)
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
	return env.OrNone(v.Tool)
}

func (v AskView) row() []string {
	expires := "never"
	if !v.Expires.IsZero() {
		expires = env.When(v.Expires, time.Now())
	}
	kind := v.Kind
	if v.Tainted {
		kind += " (tainted)"
	}
	return []string{v.Short, string(v.Status), kind, env.Shorten(v.who(), 30), env.Shorten(v.what(), 60), expires}
}

// text is all of an ask, for reading. What does not come from the configuration stands
// behind a bar.
func (v *AskView) text(row *store.Ask, now time.Time) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-11s%s\n", name, env.Plain(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(&b, "ask %s: %s\n", env.Plain(v.Short), v.Status)
	if v.Server != "" {
		line("server", "%s (%s), %s", v.Server, env.OrNone(v.Trust), env.OrNone(v.Origin))
	} else {
		line("asks", "the program itself")
	}
	if len(v.Path) > 0 {
		line("for", "%s", strings.Join(v.Path, " > "))
	}
	if v.Run != "" {
		line("run", "%s", v.Run)
	}
	line("kind", "%s", v.Kind)
	if v.Tool != "" {
		line("tool", "%s", v.Tool)
	}
	for _, c := range v.Calls {
		line("because of", "%s %s", c.Method, c.Name)
	}
	for _, note := range v.Notes {
		line("beware", "%s", note)
	}
	v.textOf(&b, row, line)
	line("hash", "%s", env.OrNone(v.Hash))
	line("created", "%s", v.Created.Local().Format(time.DateTime))
	switch {
	case v.Status != store.AskPending:
		line("decided", "%s by %s", v.At.Local().Format(time.DateTime), cmp.Or(v.By, "the clock"))
		return b.String()
	case v.Expires.IsZero():
		line("expires", "never")
	default:
		line("expires", "%s, in %v", v.Expires.Local().Format(time.DateTime), v.Expires.Sub(now).Round(time.Second))
	}
	fmt.Fprintf(&b, "%s\n", v.how())
	return b.String()
}

// textOf is what the kinds do not have in common.
func (v *AskView) textOf(b *strings.Builder, row *store.Ask, line func(name, format string, args ...any)) {
	switch {
	case v.bad != nil:
		line("beware", "%v", v.bad)
	case v.Kind == runlog.AskKind:
		line("arguments", "")
		env.Quote(b, env.IndentJSON(v.Arguments))
		if v.Tainted {
			line("beware", "what strangers have written and private data are both in this conversation, and this call may carry the data out")
		}
	case v.Kind == runlog.AskOutcome:
		line("arguments", "")
		env.Quote(b, env.IndentJSON(v.Arguments))
		line("sent", "%s", v.Sent.Local().Format(time.DateTime))
		line("beware", "the process that made this call has ended: it may have had its effect, or not. Look there before you answer")
	case v.Limit != nil:
		line("limit", "%s: %s, spent %s", v.Limit.Limit, v.Limit.Max, v.Limit.Spent)
		line("asks for", "%s more", v.Limit.More)
	case v.Login != nil:
		line("login", "%s", env.OrNone(v.Login.Command))
		line("where", "%s", env.OrNone(v.Login.Where))
		line("at", "%s", v.Login.Resource)
		if len(v.Login.Scopes) > 0 {
			line("scopes", "%s", strings.Join(v.Login.Scopes, " "))
		}
	default:
		if v.Message != "" {
			line("it says", "")
			env.Quote(b, v.Message)
		}
		if v.question.URL != nil {
			line("page", "%s", v.URL)
			line("site", "%s", cmp.Or(v.question.URL.Domain, v.question.URL.Host))
			for _, w := range v.question.URL.Warnings {
				line("beware", "%s", w)
			}
		}
		v.fieldsText(b, line)
		if v.question.Form == nil && v.question.URL == nil { // a model's, or a definition
			line("whole", "")
			env.Quote(b, env.IndentJSON(row.Payload))
		}
	}
}

func (v *AskView) fieldsText(b *strings.Builder, line func(name, format string, args ...any)) {
	for i := range v.Fields {
		f := &v.Fields[i]
		need := "optional"
		if f.Required {
			need = "required"
		}
		line("field", "%s: %s, %s", f.Name, strings.TrimSpace(f.Takes+" "+f.Format), need)
		if f.Title != "" {
			env.Quote(b, f.Title)
		}
		if f.Description != "" {
			env.Quote(b, f.Description)
		}
		for _, o := range f.Options {
			env.Quote(b, "- "+o.Value+strings.TrimSuffix(" ("+o.Title+")", " ("+o.Value+")"))
		}
		if f.Default != nil {
			env.Quote(b, "default: "+string(f.Default))
		}
		if f.Secret {
			line("beware", "this looks like a request for a secret, which servers must not make in this way")
		}
	}
}

// how says how to answer.
func (v *AskView) how() string {
	id := env.Plain(v.Short)
	answer := "  troupe inbox answer " + id
	deny := "  troupe inbox deny " + id
	if v.bad != nil {
		return deny
	}
	switch {
	case v.Kind == runlog.AskKind:
		answer += " --accept        (or --scope run, for this tool in the whole run)"
	case v.Kind == runlog.AskOutcome:
		return strings.Join([]string{answer + " --outcome happened        (and --result TEXT: what came of it, for the model)",
			answer + " --outcome again        (it did not happen: make the call)",
			answer + " --outcome tell        (the model reads that it is unknown)", answer + " --outcome end        (the run ends)"}, "\n")
	case v.Login != nil:
		answer += " --accept        (try again; the login itself does so too)"
		deny += "        (go on without the server)"
	case v.Kind == runlog.AskPage:
		answer += " --retry        (the page is done: try again; or --open, to open it again)"
		deny += "        (give the page up)"
	case v.Limit != nil:
		answer += " --accept        (or --more AMOUNT)"
	case v.form != nil && len(v.Fields) > 0:
		var sets []string
		for i := range v.Fields {
			if v.Fields[i].Required || len(v.Fields) == 1 {
				sets = append(sets, "--set "+env.Plain(v.Fields[i].Name)+"=…")
			}
		}
		answer += " " + cmp.Or(strings.Join(slices.Compact(sets), " "), "--accept        (the defaults; or --set FIELD=VALUE)")
	default:
		answer += " --accept"
	}
	return answer + "\n" + deny
}

// maxAsks bounds the asks among which one is looked for by a part of its id.
const maxAsks = 10_000

// findAsk looks an ask up: by its id, or among those that wait by the beginning of that
// or how new they are.
func findAsk(ctx context.Context, s store.Asks, name string) (store.Ask, error) {
	return env.Find("ask", "inbox ls", name, func(a store.Ask) string { return a.ID },
		func(id string) (store.Ask, error) { return s.Ask(ctx, id) },
		func() (all []store.Ask, err error) {
			for q := (store.AskQuery{Status: store.AskPending}); len(all) < maxAsks; q.After = all[len(all)-1].Cursor() {
				page, err := s.Asks(ctx, q)
				if len(page) == 0 || err != nil {
					return all, err
				}
				for i := range page { // what they carry may be large
					page[i].Payload, page[i].Default = nil, nil
				}
				all = append(all, page...)
			}
			return all, nil
		})
}
