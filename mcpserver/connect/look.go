package connect

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/visit"
)

var looks = template.Must(template.New("").Parse(visit.Head + `
{{define "say"}}{{template "head" .}}<p>{{.Text}}</p>{{end}}

{{define "ask"}}{{template "head" .}}
{{with .Warning}}<p class="w">{{.}}</p>{{end}}
<p>Connect your <b>{{.Provider}}</b> account?</p>
<dl>{{with .Tool}}<dt>The tool that needs it</dt><dd id="tool">{{.}}</dd>{{end}}
{{with .Scopes}}<dt>What it may do there</dt><dd id="scopes">{{range .}}{{.}}<br>{{end}}</dd>{{end}}
{{with .Visitor}}<dt>You are logged in here as</dt><dd id="visitor">{{.}}</dd>{{end}}</dl>
<p>Go on only if you have asked for this yourself. If the address of this page was sent to you, close it.</p>
{{if .Key}}<form method="post"><input type="hidden" name="token" value="{{.Token}}"><p><button name="do" value="refuse">Refuse</button></p></form>{{end}}
<form method="post"><input type="hidden" name="token" value="{{.Token}}">
{{if .Key}}<p><label>Your key{{with .Help}} ({{.}}){{end}}<br><input type="password" name="key" autocomplete="off" required></label></p>{{end}}
<p>{{if not .Key}}<button name="do" value="refuse">Refuse</button>{{end}}<button name="do" value="connect">{{if .Key}}Connect{{else}}Go on to {{.Provider}}{{end}}</button></p></form>{{end}}

{{define "result"}}{{template "head" .}}
<p id="done">Your {{.Provider}} account{{with .Account}} <b id="account">{{.}}</b>{{end}} is connected. You can close this page.</p>
<p>Not the account you meant? <a href="{{.List}}">Disconnect it</a>.</p>{{end}}

{{define "list"}}{{template "head" .}}<p>{{with .Visitor}}Accounts of {{.}} that are connected:{{else}}Accounts that are connected:{{end}}</p>
{{if .Accounts}}<table>{{range .Accounts}}<tr><td><b>{{.Provider}}</b> {{.Name}}{{if .Dead}} <span class="w">has to be connected again</span>{{end}}<br>
{{range .Scopes}}{{.}} {{end}}<br>connected {{.Connected}}{{with .Used}}, last used {{.}}{{end}}</td>
<td><form method="post" action="{{.Action}}"><input type="hidden" name="provider" value="{{.ID}}"><input type="hidden" name="token" value="{{.Token}}"><button>Disconnect</button></form></td></tr>{{end}}</table>
{{else}}<p id="none">None.</p>{{end}}
{{range .Pages}}<p>A tool waits: <a href="{{.At}}">connect your {{.Provider}} account</a>.</p>{{end}}{{end}}
`))

// show writes a page.
func (s *site) show(w http.ResponseWriter, status int, name string, values map[string]any) {
	values["Name"] = s.c.opts.Name
	var b bytes.Buffer
	if err := looks.ExecuteTemplate(&b, name, values); err != nil {
		s.c.log.Error("a page cannot be shown", "error", err)
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// say is a page with a text alone.
func (s *site) say(w http.ResponseWriter, status int, text string) {
	s.show(w, status, "say", map[string]any{"Text": text})
}

// ask is the page that asks for consent.
func (s *site) ask(w http.ResponseWriter, status int, who owner, p *page, of *provider, warning string) {
	action := ""
	if of.key == nil { // the browser holds the redirects of the provider to it, too
		action = " https:"
		if s.base.Scheme == "http" {
			action += " http://127.0.0.1:* http://localhost:*"
		}
	}
	visit.SetHeaders(w.Header(), action)
	values := map[string]any{
		"Provider": of.title, "Tool": p.Tool, "Scopes": p.Scopes, "Visitor": who.subject, "Token": s.formToken(who, p.id), "Warning": warning, "Key": of.key != nil,
	}
	if of.key != nil {
		values["Help"] = of.key.Help
	}
	s.show(w, status, "ask", values)
}

// over is the page of one that has ended.
func (s *site) over(w http.ResponseWriter, p *page, of *provider) {
	if p.State == pageDone {
		s.say(w, http.StatusOK, "Your "+of.title+" account is connected. You can close this page.")
		return
	}
	s.say(w, http.StatusOK, "Your "+of.title+" account is not connected: "+strings.TrimSuffix(p.Reason, ".")+". You can close this page.")
}

func (s *site) result(w http.ResponseWriter, of *provider, account string) {
	s.show(w, http.StatusOK, "result", map[string]any{"Provider": of.title, "Account": account, "List": s.path()})
}

// listed is an account in the list.
type listed struct {
	ID, Provider, Name, Action, Token string
	Scopes                            []string
	Connected, Used                   string
	Dead                              bool
}

// list shows the accounts of the visitor, and the pages that wait.
func (s *site) list(w http.ResponseWriter, r *http.Request, who owner) error {
	var accounts []listed
	for _, name := range s.c.names {
		of := s.c.providers[name]
		a, _, err := s.c.account(r.Context(), who, of)
		switch {
		case err != nil: // it can be removed all the same
			s.c.log.Error("an account cannot be opened", "provider", name, "error", err)
			a = &account{Dead: true}
		case a == nil:
			continue
		}
		one := listed{ID: name, Provider: of.title, Name: a.Name, Scopes: a.Scopes, Dead: a.Dead, Connected: day(a.Connected), Used: day(a.Used), Action: s.path("revoke"), Token: s.formToken(who, "revoke "+name)}
		accounts = append(accounts, one)
	}
	open, err := s.c.pages(r.Context(), who)
	if err != nil {
		return err
	}
	type waiting struct{ Provider, At string }
	var pages []waiting
	for _, p := range open {
		if of := s.c.providers[p.Provider]; of != nil && p.State == "" {
			pages = append(pages, waiting{of.title, s.path("start", p.id)})
		}
	}
	s.show(w, http.StatusOK, "list", map[string]any{"Visitor": who.subject, "Accounts": accounts, "Pages": pages})
	return nil
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}
