package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// typist answers questions with lines, and forms with a decision.
type typist struct {
	lines []string
	form  *mcpclient.Decision
	shown string
}

func (p *typist) Decide(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
	if p.form == nil {
		return nil, io.EOF
	}
	return p.form, nil
}

func (p *typist) Ask(_ context.Context, text, prompt string) (string, error) {
	p.shown += text + prompt
	if len(p.lines) == 0 {
		return "", io.EOF
	}
	line := p.lines[0]
	p.lines = p.lines[1:]
	return line, nil
}

// rowOf makes an ask with the hash of its payload.
func rowOf(t testing.TB, kind string, payload any) store.Ask {
	t.Helper()
	raw, err := jsonx.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	row := store.Ask{ID: "3fa85f64-5717-4562-b3fc-2c963f66afa6-1-0", Kind: kind, Server: "bank", Origin: "bank-server", Trust: "untrusted",
		Path: []string{"main"}, Payload: raw, Expires: time.Now().Add(time.Hour)}
	canonical, err := jsonx.Canonical(raw)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(canonical)
	row.Hash = "sha256:" + hex.EncodeToString(sum[:])
	if q, ok := payload.(*mcpclient.Ask); ok {
		if row.Hash, err = q.ContentHash(); err != nil {
			t.Fatal(err)
		}
		q.Hash = row.Hash
		if row.Payload, err = jsonx.Marshal(q); err != nil {
			t.Fatal(err)
		}
	}
	return row
}

func callRow(t testing.TB) store.Ask {
	return rowOf(t, runlog.AskKind, runlog.ApprovalPayload{Server: "bank", Tool: "bank__pay", Arguments: json.RawMessage(`{"to":"eve"}`), Tainted: true})
}

func limitRow(t testing.TB) store.Ask {
	return rowOf(t, runlog.AskLimit, runlog.LimitPayload{Account: "main", Limit: "tokens", Max: "100", Spent: "90", More: "100"})
}

func jobRow(t testing.TB) store.Ask {
	return rowOf(t, runlog.AskJob, runlog.JobPayload{Job: "night", Why: "its worker was lost 10 times", Losses: 10})
}

func formRow(t testing.TB) store.Ask {
	return rowOf(t, runlog.AskForm, &mcpclient.Ask{Kind: mcpclient.AskForm, Server: "bank", Origin: "bank-server", Path: []string{"main"}, Message: "Who?",
		Form: &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","default":7}},"required":["name"]}`)}})
}

func pageRow(t testing.TB) store.Ask {
	return rowOf(t, runlog.AskPage, &mcpclient.Ask{Kind: mcpclient.AskPage, Server: "bank", Origin: "bank-server", Path: []string{"main"}, Message: "Sign in",
		Notes: []string{"No browser could be started here: open the page yourself."},
		URL:   &mcpclient.URLView{URL: "https://bank.example/sign-in", Host: "bank.example", Domain: "bank.example"}})
}

// A job that gets no further is in the inbox with the reason, and with what a yes and a no do.
func TestInboxJob(t *testing.T) {
	row := rowOf(t, runlog.AskJob, runlog.JobPayload{Job: "night", Why: "its model's provider has been away", Losses: 2,
		Provider: "openai@host:1", Class: "auth", Since: time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)})
	row.Status, row.Server = store.AskPending, ""
	v := viewOf(&row)
	text := v.text(&row, time.Now())
	for _, want := range []string{"the worker of the job", "job        night", "why        its model's provider has been away", "losses     2 of its workers",
		"outage     provider openai@host:1 is away (auth) since 2026-01-31T08:00:00Z", "--accept        (the job goes on)", "(its run ends)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if what := v.What(); what != "shall the job night go on? its model's provider has been away" {
		t.Errorf("the list says %q", what)
	}
}

// A page that is waited for is in the inbox, with what can be done about it (URL-17).
func TestInboxPage(t *testing.T) {
	row := pageRow(t)
	row.Status = store.AskPending
	v := viewOf(&row)
	text := v.text(&row, time.Now())
	for _, want := range []string{"page       https://bank.example/sign-in", "No browser could be started here", "--retry", "--open", "(give the page up)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if what := v.What(); what != "waiting for the page https://bank.example/sign-in" {
		t.Errorf("the list says %q", what)
	}
	form := viewOf(new(formRow(t)))
	for _, tt := range []struct {
		name  string
		flags answerFlags
		view  *AskView
		want  string // the answer; "" for a refusal
	}{
		{"accept", answerFlags{accept: true}, &v, `{"page":"retry"}`},
		{"retry", answerFlags{retry: true}, &v, `{"page":"retry"}`},
		{"open", answerFlags{open: true}, &v, `{"page":"open"}`},
		{"both", answerFlags{retry: true, open: true}, &v, ""},
		{"of a form", answerFlags{retry: true}, &form, ""},
	} {
		d, err := tt.flags.decide(tt.view)
		if (err == nil) != (tt.want != "") || err == nil && (string(d.Answer) != tt.want || d.Status != store.AskAccepted) {
			t.Errorf("%s: got %s %s, %v, want %s", tt.name, d.Status, d.Answer, err, tt.want)
		}
	}
}

// A person on the terminal decides, or leaves it; nothing is decided by the end of the
// input, an empty line or a word that is none.
// patient is asked, and answers nothing.
type patient struct{ mcpclient.Human }

func (patient) Ask(ctx context.Context, _, _ string) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// A question on a terminal goes away once it is settled elsewhere (SECA-51).
func TestInboxSettledElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, row := memstore.New(nil), callRow(t)
		row.Expires = time.Now().Add(time.Hour)
		if err := s.OpenAsk(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			ended <- askInTerminal(t.Context(), &env.Env{Stdout: io.Discard, Stderr: io.Discard}, s, &row, patient{})
		}()
		synctest.Wait()
		if _, err := s.SettleAsk(t.Context(), row.ID, store.Decision{Status: store.AskDeclined, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, store.ErrSettled) || !strings.Contains(err.Error(), "declined by ada") {
			t.Errorf("got %v, want that ada has declined it", err)
		}
	})
}

func TestInboxInTerminal(t *testing.T) {
	accepted := &mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"name": json.RawMessage(`"Ada"`)}}
	changed := callRow(t)
	changed.Hash = "sha256:another"
	tests := []struct {
		name   string
		row    store.Ask
		person *typist
		status store.AskStatus // "" for none
		scope  string
		answer string
	}{
		{"yes", callRow(t), &typist{lines: []string{"what?", "Y"}}, store.AskAccepted, "once", ""},
		{"for the run", callRow(t), &typist{lines: []string{"r"}}, store.AskAccepted, "run", ""},
		{"no", callRow(t), &typist{lines: []string{"no"}}, store.AskDeclined, "", ""},
		{"an empty line", callRow(t), &typist{lines: []string{""}}, "", "", ""},
		{"the end of the input", callRow(t), &typist{}, "", "", ""},
		{"more", limitRow(t), &typist{lines: []string{"-5", "500"}}, store.AskAccepted, "once", `{"more":"500"}`},
		{"as much as is asked for", limitRow(t), &typist{lines: []string{"yes"}}, store.AskAccepted, "once", ""},
		{"a job goes on", jobRow(t), &typist{lines: []string{"y"}}, store.AskAccepted, "once", ""},
		{"a job ends", jobRow(t), &typist{lines: []string{"n"}}, store.AskDeclined, "", ""},
		{"a form", formRow(t), &typist{form: accepted}, store.AskAccepted, "once", `"Ada"`},
		{"a form declined", formRow(t), &typist{form: &mcpclient.Decision{Action: mcp.ActionDecline}}, store.AskDeclined, "", ""},
		{"a form put off", formRow(t), &typist{form: &mcpclient.Decision{Action: mcp.ActionCancel}}, "", "", ""},
		{"a page is done", pageRow(t), &typist{form: &mcpclient.Decision{Action: mcp.ActionAccept, Page: mcpclient.PageRetry}}, store.AskAccepted, "once", `{"page":"retry"}`},
		{"a page is given up", pageRow(t), &typist{form: &mcpclient.Decision{Action: mcp.ActionCancel, Page: mcpclient.PageCancel}}, store.AskDeclined, "", `{"page":"cancel"}`},
		{"a page is left", pageRow(t), &typist{form: &mcpclient.Decision{Action: mcp.ActionCancel}}, "", "", ""},
		{"not what was asked", changed, &typist{lines: []string{"y", "r", ""}}, "", "", ""}, // SECA-41
		{"not what was asked, declined", changed, &typist{lines: []string{"n"}}, store.AskDeclined, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			s := memstore.New(nil)
			if err := s.OpenAsk(t.Context(), tt.row); err != nil {
				t.Fatal(err)
			}
			e := &env.Env{Stdout: io.Discard, Stderr: io.Discard}
			if err := askInTerminal(t.Context(), e, s, &tt.row, tt.person); err != nil {
				t.Fatal(err)
			}
			got, err := s.Ask(t.Context(), tt.row.ID)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.status
			if want == "" {
				want = store.AskPending
			}
			if got.Status != want || got.Scope != tt.scope || !strings.Contains(string(got.Answer), tt.answer) || tt.answer == "" && got.Status == store.AskAccepted && len(got.Answer) > 0 {
				t.Errorf("got %s %q %s, want %s %q %s", got.Status, got.Scope, got.Answer, want, tt.scope, tt.answer)
			}
			if tt.row.Kind == runlog.AskKind && tt.row.Hash != "sha256:another" && (!strings.Contains(tt.person.shown, `"to": "eve"`) || !strings.Contains(tt.person.shown, "may carry the data out")) {
				t.Errorf("shown was %q, want the arguments whole and the warning", tt.person.shown)
			}
		})
	}
}

// What servers write cannot look like the program's own words, nor move the cursor
// (SECA-37, SECA-41).
func TestInboxShowsHostileText(t *testing.T) {
	row := rowOf(t, runlog.AskForm, &mcpclient.Ask{Kind: mcpclient.AskForm, Server: "bank", Origin: "bank-server", Path: []string{"main"},
		Message: "Hi\x1b[2J\n  server    trusted (trusted), yours\u202e\r\nhash sha256:fine",
		Form: &mcp.ElicitParams{RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"password":{"type":"string","title":"Your\u001b[31m password\u202e"}}}`)}})
	v := viewOf(&row)
	if v.Bad != nil {
		t.Fatal(v.Bad)
	}
	text := v.text(&row, time.Now())
	if strings.ContainsAny(text, "\x1b\r\u202e") {
		t.Errorf("got %q, want no control characters", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "yours") && !strings.HasPrefix(line, "    │ ") {
			t.Errorf("the server's words stand as the program's: %q", line)
		}
	}
	if !strings.Contains(text, "looks like a request for a secret") { // SECA-31
		t.Errorf("got %q, want a warning of the password", text)
	}
	for _, cell := range v.row() {
		if strings.Contains(env.Plain(cell), "\x1b") || strings.Contains(env.Plain(cell), "\n") {
			t.Errorf("a cell of the list: %q", cell)
		}
	}
}

// What cannot be read is shown as such, and can only be declined.
func TestInboxUnreadable(t *testing.T) {
	for name, row := range map[string]store.Ask{
		"another hash": {Kind: runlog.AskForm, Payload: formRow(t).Payload, Hash: "x"},
		"another server": func() store.Ask {
			r := formRow(t)
			r.Payload = []byte(strings.Replace(string(r.Payload), "bank", "bunk", 1))
			return r
		}(),
		"sealed":          {Kind: runlog.AskForm, Payload: json.RawMessage(`"c2VhbGVk"`)},
		"nothing":         {Kind: runlog.AskKind},
		"an unknown kind": {Kind: "riddle", Payload: json.RawMessage(`{}`)},
		"arguments differ": func() store.Ask {
			r := callRow(t)
			r.Payload = []byte(strings.Replace(string(r.Payload), "eve", "bob", 1))
			return r
		}(),
	} {
		row.ID = "a"
		v := viewOf(&row)
		if v.Bad == nil || !v.Changed {
			t.Errorf("%s: got %+v, want that it is shown as unreadable", name, v)
			continue
		}
		if _, err := (&answerFlags{accept: true}).decide(&v); err == nil {
			t.Errorf("%s: it could be accepted", name)
		}
		if how := v.how(); strings.Contains(how, "answer") {
			t.Errorf("%s: got %q, want only how to deny it", name, how)
		}
		_ = v.text(&row, time.Now())
	}
}

func FuzzViewOf(f *testing.F) {
	f.Add("tool", []byte(callRow(f).Payload))
	f.Add("form", []byte(formRow(f).Payload))
	f.Add("limit", []byte(limitRow(f).Payload))
	f.Add("url", []byte(`{"kind":"url","url":{"url":"https://example.com/"}}`))
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		row := store.Ask{ID: "a", Kind: kind, Payload: payload, Decision: store.Decision{Status: store.AskPending}}
		if q := new(mcpclient.Ask); jsonx.Unmarshal(payload, q) == nil {
			row.Hash, _ = q.ContentHash()
		}
		v := viewOf(&row)
		if text := v.text(&row, time.Time{}); strings.ContainsAny(text, "\x1b\x07\r\u202e") {
			t.Errorf("viewOf(%q, %q): shows %q", kind, payload, text)
		}
		_, _ = (&answerFlags{accept: true}).decide(&v)
	})
}
