package authserver

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/internal/visit"
)

// What a client has said is text here, and only that.
var looks = template.Must(template.New("").Parse(visit.Head + `
{{define "say"}}{{template "head" .}}<p>{{.Text}}</p>{{end}}

{{define "back"}}{{template "head" .}}<p>The program <b>{{.Client}}</b> has asked for something that it cannot have: {{.Why}} ({{.Code}}).</p>
<p>If you know <b>{{.Host}}</b>, you can <a rel="noreferrer" href="{{.At}}">go back there</a>. Otherwise close this page.</p>{{end}}

{{define "ask"}}{{template "head" .}}
<p>May <b id="client">{{.Client}}</b> use <b>{{.Name}}</b> in your name?</p>
<dl><dt>You are logged in as</dt><dd id="visitor">{{.Visitor}}</dd>
<dt>Who says what the program is called</dt><dd id="who">{{.Who}}</dd>
<dt>Where you are sent then</dt><dd id="host">{{.Host}}</dd>
<dt>What it may use</dt><dd id="resource">{{.Resource}}</dd>
{{with .Scopes}}<dt>What it may do there</dt><dd id="scopes">{{range .}}{{.}}<br>{{end}}</dd>{{end}}</dl>
{{with .Warning}}<p class="w">{{.}}</p>{{end}}
<p>Go on only if you have begun this yourself, in that program. If the address of this page was sent to you, close it.</p>
<form method="post" action="{{.Action}}"><input type="hidden" name="token" value="{{.Token}}">
<p><button name="do" value="refuse">Refuse</button><button name="do" value="allow">Allow</button></p></form>{{end}}

{{define "login"}}{{template "head" .}}
{{with .Warning}}<p class="w">{{.}}</p>{{end}}
<form method="post" action="{{.Action}}"><input type="hidden" name="token" value="{{.Token}}">
<p><label>Name<br><input type="text" name="user" value="{{.User}}" autocomplete="username" autocapitalize="none" required autofocus></label></p>
<p><label>Password<br><input type="password" name="password" autocomplete="current-password" required></label></p>
<p><button>Log in</button></p></form>{{end}}
`))

const (
	// browserCookie is the value by which a browser is known again.
	browserCookie = "troupe-auth-browser"
	browserLife   = 24 * time.Hour
	// pageLife bounds the time between a page and its POST.
	pageLife = 15 * time.Minute
)

// pages are what people visit, in their browsers.
type pages struct {
	*site
	cookies visit.Cookies
	cross   *http.CrossOriginProtection
}

// show writes a page.
func (v *pages) show(w http.ResponseWriter, status int, name string, values map[string]any) {
	values["Name"] = v.opts.Name
	var b bytes.Buffer
	if err := looks.ExecuteTemplate(&b, name, values); err != nil {
		v.log.Error("a page cannot be shown", "error", err)
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // an error means that the browser has gone
}

// say is a page with a text alone.
func (v *pages) say(w http.ResponseWriter, status int, text string) {
	v.show(w, status, "say", map[string]any{"Text": text})
}

// forbid answers a request that may be an attack.
func (v *pages) forbid(w http.ResponseWriter, r *http.Request, why string) {
	v.log.Warn("a page is refused", "reason", why, "method", r.Method, "path", r.URL.Path, "address", v.addressOf(r))
	v.say(w, http.StatusForbidden, "This page is not of this browser, was answered before, or has expired. If you did not ask for it yourself, close it. Otherwise begin again in the program that has sent you here.")
}

// called is what a page calls a client.
func (c *client) called() string {
	if c.Name != "" {
		return c.Name
	}
	return "a program without a name"
}

// back is the page for an error that is not sent on at once.
func (v *pages) back(w http.ResponseWriter, c *client, q *request, refused *refusal, at string) {
	v.show(w, http.StatusBadRequest, "back", map[string]any{"Client": c.called(), "Why": refused.Description, "Code": refused.Code, "Host": hostOf(q.Redirect), "At": at})
}

// hostOf is what a person can judge of a redirect address (AUTH-32).
func hostOf(redirect string) string {
	u, err := url.Parse(redirect)
	switch {
	case err != nil:
		return sanitize.Line(redirect, 200)
	case u.Scheme != "http" && u.Scheme != "https":
		return "a program on this machine, by " + u.Scheme + ":"
	}
	if _, _, local := loopback(redirect); local {
		return "a program on this machine, at " + u.Host
	}
	return u.Host
}

// ask is the page that asks for consent.
func (v *pages) ask(w http.ResponseWriter, c *client, p *consent) error {
	token, err := v.cookies.SealText(p, "consent")
	if err != nil {
		return err
	}
	who, warning := "this server knows it", ""
	switch c.kind {
	case described:
		u, _ := url.Parse(c.ID) // it was checked
		who = u.Host + ", which describes it at " + sanitize.Line(c.ID, 300)
	case registered:
		who = "the program itself"
	}
	if _, _, local := loopback(p.Request.Redirect); local && c.kind != configured {
		warning = "Any program on this machine could say that it is " + c.called() + "."
	}
	// The browser holds the redirect to the policy, too, and those that follow there.
	scheme, _, _ := strings.Cut(p.Request.Redirect, ":")
	action := " https:"
	if scheme != "https" {
		action += " " + scheme + ":"
	}
	visit.SetHeaders(w.Header(), action)
	v.show(w, http.StatusOK, "ask", map[string]any{
		"Client": c.called(), "Who": who, "Visitor": p.Person.Subject, "Host": hostOf(p.Request.Redirect), "Resource": p.Request.Resource, "Scopes": p.Request.Scopes,
		"Warning": warning, "Action": v.path("authorize"), "Token": token,
	})
	return nil
}
