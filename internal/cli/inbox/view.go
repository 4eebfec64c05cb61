package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/question"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// AskView is an ask as "inbox ls --json" prints it.
type AskView struct{ question.View }

func viewOf(row *store.Ask) AskView {
	v := AskView{question.Read(row)}
	v.Short = env.Short(row.ID)
	return v
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

// row is its line in a list.
func (v AskView) row() []string {
	expires := "never"
	if !v.Expires.IsZero() {
		expires = env.When(v.Expires, time.Now())
	}
	kind := v.Kind
	if v.Tainted {
		kind += " (tainted)"
	}
	return []string{v.Short, string(v.Status), kind, env.Shorten(v.Who(), 30), env.Shorten(v.What(), 60), expires}
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
	} else if v.Kind == runlog.AskJob {
		line("asks", "the worker of the job")
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
	case v.Bad != nil:
		line("beware", "%v", v.Bad)
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
		line("beware", "it may have had its effect, or not: %s. Look there before you answer", env.Plain(v.Why))
	case v.Limit != nil:
		line("limit", "%s: %s, spent %s", v.Limit.Limit, v.Limit.Max, v.Limit.Spent)
		line("asks for", "%s more", v.Limit.More)
	case v.Job != nil:
		line("job", "%s", v.Job.Job)
		line("why", "%s", v.Job.Why)
		if v.Job.Losses > 0 {
			line("losses", "%d of its workers in a row, without progress", v.Job.Losses)
		}
		if out := v.Job.Outage(); out != "" {
			line("outage", "%s", out)
		}
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
		if v.Asked.URL != nil {
			line("page", "%s", v.URL)
			line("site", "%s", cmp.Or(v.Asked.URL.Domain, v.Asked.URL.Host))
			for _, w := range v.Asked.URL.Warnings {
				line("beware", "%s", w)
			}
		}
		v.fieldsText(b, line)
		if v.Asked.Form == nil && v.Asked.URL == nil { // a model's, or a definition
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
	if v.Bad != nil {
		return deny
	}
	switch {
	case v.Kind == runlog.AskKind:
		answer += " --accept        (or --scope run, for this tool in the whole run)"
	case v.Kind == runlog.AskOutcome:
		return strings.Join([]string{answer + " --outcome happened        (and --result TEXT: what came of it, for the model)",
			answer + " --outcome again        (it did not happen: make the call)",
			answer + " --outcome tell        (the model reads that it is unknown)", answer + " --outcome end        (the run ends)"}, "\n")
	case v.Job != nil:
		answer += " --accept        (the job goes on)"
		deny += "        (its run ends)"
	case v.Login != nil:
		answer += " --accept        (try again; the login itself does so too)"
		deny += "        (go on without the server)"
	case v.Kind == runlog.AskPage:
		answer += " --retry        (the page is done: try again; or --open, to open it again)"
		deny += "        (give the page up)"
	case v.Limit != nil:
		answer += " --accept        (or --more AMOUNT)"
	case v.Form != nil && len(v.Fields) > 0:
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
