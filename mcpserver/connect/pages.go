package connect

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/mcpserver"
)

// site is where pages are served: below Options.Base, or on this machine for stdio.
type site struct {
	c       *Connector
	base    *url.URL // its path has no slash at the end
	visitor func(r *http.Request) (owner, bool)
	login   Login // may be an entrance; nil on this machine
	cross   *http.CrossOriginProtection
	cookies visit.Cookies
}

func newSite(c *Connector, base *url.URL, login Login) *site {
	s := &site{c: c, base: base, login: login, cross: http.NewCrossOriginProtection(),
		cookies: visit.Cookies{HTTPS: base.Scheme == "https", Seal: c.seal}}
	s.visitor = func(r *http.Request) (owner, bool) {
		issuer, subject, ok := login.Visitor(r)
		return owner{issuer: issuer, subject: subject}, ok && subject != ""
	}
	_ = s.cross.AddTrustedOrigin(base.Scheme + "://" + base.Host) // behind a proxy that changes Host
	return s
}

// address returns that of a page.
func (s *site) address(parts ...string) string {
	return strings.Join(append([]string{s.base.String()}, parts...), "/")
}

// path returns that of a page, without the host.
func (s *site) path(parts ...string) string {
	return cmp.Or(strings.Join(append([]string{s.base.Path}, parts...), "/"), "/")
}

// ServeHTTP serves the pages below Options.Base. The path must not be stripped.
func (c *Connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.site == nil {
		http.NotFound(w, r)
		return
	}
	c.site.ServeHTTP(w, r)
}

// ServeHTTP implements [http.Handler].
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	webserver.BoundBody(w, r)
	visit.SetHeaders(w.Header(), "")
	if !s.knows(r.Host) { // DNS rebinding
		s.c.log.Warn("a page is refused: it is not reached by this name; have a proxy pass Host on, or name what it sends in Options.Hosts", "host", clip.Name(r.Host), "want", s.base.Host)
		s.say(w, http.StatusMisdirectedRequest, "This page is not reached by this name.")
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, s.base.Path)
	if !ok || rest != "" && rest[0] != '/' {
		s.say(w, http.StatusNotFound, "There is no such page.")
		return
	}
	kind, name, _ := strings.Cut(strings.Trim(rest, "/"), "/")
	if l, ok := s.login.(*oidcLogin); ok && kind == "login" {
		l.serve(s, w, r, name)
		return
	}
	switch status, text := visit.Admit(w, r, s.cross); status {
	case 0:
	case http.StatusForbidden:
		s.refuse(w, r, text)
		return
	default:
		s.say(w, status, text)
		return
	}
	who, ok := s.visitor(r)
	if !ok {
		s.enter(w, r, kind)
		return
	}
	post := r.Method == http.MethodPost
	var err error
	switch {
	case kind == "" && !post:
		err = s.list(w, r, who)
	case kind == "revoke" && post:
		err = s.revoke(w, r, who)
	case kind == "start":
		err = s.start(w, r, who, name, post)
	case kind == "callback" && !post:
		err = s.callback(w, r, who, name)
	default:
		s.say(w, http.StatusNotFound, "There is no such page.")
	}
	if err != nil {
		s.c.log.Error("a page has failed", "page", kind, "error", err)
		s.say(w, http.StatusInternalServerError, "Something went wrong here. Nothing has changed. Try again in a while.")
	}
}

// knows reports whether a host is that of Base, or one of Options.Hosts. On this machine all names of it
// are.
func (s *site) knows(host string) bool {
	if oauth.OnLoopback(s.base.String()) && oauth.OnLoopback("http://"+host) {
		return true
	}
	bare := func(host string) string {
		return strings.TrimSuffix(strings.ToLower(host), map[string]string{"https": ":443", "http": ":80"}[s.base.Scheme])
	}
	return slices.ContainsFunc(append([]string{s.base.Host}, s.c.opts.Hosts...), func(h string) bool { return bare(h) == bare(host) })
}

// enter sends a visitor to the login, where there is a page for that.
func (s *site) enter(w http.ResponseWriter, r *http.Request, kind string) {
	e, ok := s.login.(entrance)
	if !ok || r.Method != http.MethodGet || kind != "start" && kind != "" {
		s.say(w, http.StatusUnauthorized, "Log in first, and open the page again.")
		return
	}
	http.Redirect(w, r, e.enter(r.URL.EscapedPath()), http.StatusFound)
}

// notYours answers for every page that the visitor does not have: one of another person, one
// that has expired, and one that never was, look the same.
const notYours = "This page is not yours, or it has expired. If you did not ask for it yourself, close it: do not connect an account for another person."

// refuse answers a request that may be an attack.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, why string) {
	who, _ := s.visitor(r)
	s.c.log.Warn("a page is refused", "reason", why, "issuer", who.issuer, "subject", who.subject, "method", r.Method)
	s.say(w, http.StatusForbidden, notYours)
}

// start is the page of one elicitation.
func (s *site) start(w http.ResponseWriter, r *http.Request, who owner, id string, post bool) error {
	p, err := s.c.pageOf(r.Context(), who, id)
	if err != nil {
		return err
	}
	var of *provider
	if p != nil {
		of = s.c.providers[p.Provider]
	}
	switch {
	case of == nil:
		s.refuse(w, r, "a page that the visitor does not have")
	case p.State != "":
		s.over(w, p, of)
	case !post:
		s.ask(w, http.StatusOK, who, p, of, "")
	case !s.valid(r, who, id):
		s.refuse(w, r, "a form without the token of its page")
	case r.PostForm.Get("do") != "connect":
		if err := s.c.refuse(r.Context(), who, p, "the user has refused on the page"); err != nil {
			return err
		}
		s.over(w, p, of)
	case of.key != nil:
		return s.pasted(w, r, who, p, of)
	default:
		return s.leave(w, r, who, p, of)
	}
	return nil
}

// leave sends the browser to the provider.
func (s *site) leave(w http.ResponseWriter, r *http.Request, who owner, p *page, of *provider) error {
	client, err := of.client(r.Context())
	if err != nil {
		s.c.log.Warn("a provider cannot be asked", "provider", of.name, "error", err)
		s.say(w, http.StatusBadGateway, of.title+" cannot be reached. Try again in a while.")
		return nil
	}
	switch first, err := s.first(r, who, p.id); {
	case err != nil:
		return err
	case !first: // the page is answered once; what it has refused or connected is over anyway
		s.refuse(w, r, "a form that was sent before")
		return nil
	}
	scopes, err := s.scopes(r.Context(), who, p, of)
	if err != nil {
		return err
	}
	a, err := client.Begin(s.address("callback", of.name), scopes, of.Params)
	if err != nil {
		return err
	}
	cookie := s.cookies.Browser(w, r, flowCookie, flowLife)
	state, verifier := a.Secrets()
	err = s.c.putFlow(r.Context(), who, &flow{
		Page: p.id, Provider: of.name, Scopes: scopes, State: state.Reveal(), Verifier: verifier.Reveal(), Redirect: a.RedirectURI, Cookie: visit.Digest(cookie),
	})
	if errors.Is(err, errTooMany) {
		s.say(w, http.StatusTooManyRequests, "Too many attempts are open. Wait ten minutes.")
		return nil
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", a.URL) // as it is: it was checked
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// scopes returns those to ask for: those of the page, of the provider, and those that the
// account has already, which a narrower grant would take away.
func (s *site) scopes(ctx context.Context, who owner, p *page, of *provider) ([]string, error) {
	all := append(slices.Clone(of.Scopes), p.Scopes...)
	a, _, err := s.c.account(ctx, who, of)
	if err != nil {
		s.c.log.Warn("an account cannot be opened, and is connected anew", "provider", of.name, "error", err)
	}
	if a != nil {
		all = append(all, a.Scopes...)
	}
	var once []string
	for _, scope := range all {
		if !slices.Contains(once, scope) {
			once = append(once, scope)
		}
	}
	return once, nil
}

// flowCookie is the value by which a browser is known again.
const flowCookie = "troupe-connect-flow"

// callback takes the answer of the provider. The flow must be the visitor's, of this browser,
// and of one use (SECA-28).
func (s *site) callback(w http.ResponseWriter, r *http.Request, who owner, name string) error {
	ctx := r.Context()
	states := r.URL.Query()["state"]
	if len(states) != 1 || len(states[0]) > 200 {
		s.refuse(w, r, "an answer without one state")
		return nil
	}
	f, err := s.c.flowOf(ctx, who, states[0])
	if err != nil {
		return err
	}
	cookie, bad := r.Cookie(s.cookies.Name(flowCookie))
	switch {
	case f == nil || f.Provider != name || s.c.providers[name] == nil:
		s.refuse(w, r, "an answer to no flow of the visitor")
		return nil
	case bad != nil || !oauth.NewSecret(visit.Digest(cookie.Value)).Equal(oauth.NewSecret(f.Cookie)):
		s.refuse(w, r, "an answer to a flow of another browser")
		return nil
	}
	p, err := s.c.pageOf(ctx, who, f.Page)
	if err != nil {
		return err
	}
	switch first, err := s.c.takeFlow(ctx, who, f); {
	case err != nil:
		return err
	case !first || p == nil:
		s.refuse(w, r, "an answer that came before, or too late")
		return nil
	case p.State != "": // the other tab was faster
		s.over(w, p, s.c.providers[name])
		return nil
	}
	return s.exchange(w, r, who, p, f)
}

// exchange gets the tokens and keeps them.
func (s *site) exchange(w http.ResponseWriter, r *http.Request, who owner, p *page, f *flow) error {
	of := s.c.providers[f.Provider]
	client, err := of.client(r.Context())
	if err != nil {
		return s.failed(w, r, who, p, of, err)
	}
	a := f.resume(client)
	code, err := a.Finish(r.URL.RawQuery)
	if err != nil {
		return s.failed(w, r, who, p, of, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 30*time.Second) // the code is of one use
	defer cancel()
	t, err := client.Token(ctx, of.http, oauth.CodeGrant(a, code), "")
	if err != nil {
		return s.failed(w, r, who, p, of, err)
	}
	next := &account{Connected: time.Now(), Used: time.Now(), Untold: true}
	next.take(t, of, f.Scopes)
	if next.Name, err = of.accountName(ctx, next.Access); err != nil {
		s.c.log.Warn("an account's name is not known", "provider", of.name, "error", err)
	}
	return s.connected(ctx, w, who, p, of, next)
}

// connected keeps an account and ends its page.
func (s *site) connected(ctx context.Context, w http.ResponseWriter, who owner, p *page, of *provider, a *account) error {
	if err := s.c.save(ctx, who, of, a); err != nil {
		return fmt.Errorf("keeping an account: %w", err)
	}
	ended := []*page{p}
	all, err := s.c.pages(ctx, who)
	if err != nil {
		return err
	}
	for _, other := range all { // what has asked for no more has its account, too
		if other.id != p.id && other.State == "" && other.Provider == p.Provider && a.has(of, other.Scopes) {
			ended = append(ended, other)
		}
	}
	for _, one := range ended {
		if err := s.c.done(ctx, who, one, a.Name); err != nil && !errors.Is(err, mcpserver.ErrNoElicitation) {
			return err
		}
	}
	s.result(w, of, a.Name)
	return nil
}

// failed ends a page for which the provider gave no account.
func (s *site) failed(w http.ResponseWriter, r *http.Request, who owner, p *page, of *provider, err error) error {
	reason := of.title + " gave no access"
	if code := oauth.CodeOf(err); code != "" {
		reason += " (" + code + ")"
	}
	s.c.log.Warn("an account is not connected", "provider", of.name, "page", p.id, "error", err)
	if oauth.CodeOf(err) == "" && !errors.Is(err, oauth.ErrIssuer) { // in trouble: the page is still good
		s.say(w, http.StatusBadGateway, reason+". Go back to the page, and try again.")
		return nil
	}
	if err := s.c.refuse(r.Context(), who, p, reason); err != nil {
		return err
	}
	s.over(w, p, of)
	return nil
}

// pasted takes the key of a form.
func (s *site) pasted(w http.ResponseWriter, r *http.Request, who owner, p *page, of *provider) error {
	key := strings.TrimSpace(r.PostForm.Get("key"))
	if key == "" || len(key) > 8<<10 || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		s.ask(w, http.StatusBadRequest, who, p, of, "That is not a key.")
		return nil
	}
	name, err := of.accountName(r.Context(), key)
	if err != nil {
		s.c.log.Warn("a key is not accepted", "provider", of.name, "page", p.id, "error", err)
		text := of.title + " cannot be asked now. Try again in a while."
		if errors.Is(err, errRefusedKey) {
			text = of.title + " does not accept this key."
		}
		s.ask(w, http.StatusBadRequest, who, p, of, text)
		return nil
	}
	return s.connected(r.Context(), w, who, p, of, &account{Name: name, Access: key, Connected: time.Now(), Used: time.Now(), Untold: true})
}

// revoke removes an account.
func (s *site) revoke(w http.ResponseWriter, r *http.Request, who owner) error {
	of := s.c.providers[r.PostForm.Get("provider")]
	if of == nil || !s.valid(r, who, "revoke "+of.name) {
		s.refuse(w, r, "a form without the token of its page")
		return nil
	}
	remote, err := s.c.revoke(r.Context(), who, of)
	if err != nil {
		return err
	}
	text := "The " + of.title + " account is disconnected."
	if remote != nil {
		text += " Its token is deleted here. " + of.title + " was not told of that: remove the access there, too, in your settings."
	}
	s.say(w, http.StatusOK, text)
	return nil
}

// formLife bounds the time between a page and its POST.
const formLife = time.Hour

// form is the token of a form.
type form struct {
	ID    string `json:"id"` // it sends a person to a provider once
	Until int64  `json:"until"`
}

// formToken proves that a form comes from a page that this visitor was shown.
func (s *site) formToken(who owner, about string) string {
	token, _ := s.cookies.SealText(&form{rand.Text(), time.Now().Add(formLife).Unix()}, aboutForm(who, about)) // it can always be encoded
	return token
}

func aboutForm(who owner, about string) string { return "form\x00" + who.id() + "\x00" + about }

// valid reports whether a form has its token.
func (s *site) valid(r *http.Request, who owner, about string) bool {
	_, ok := s.formOf(r, who, about)
	return ok
}

func (s *site) formOf(r *http.Request, who owner, about string) (f form, ok bool) {
	ok = s.cookies.OpenText(r.PostForm.Get("token"), aboutForm(who, about), &f)
	return f, ok && time.Now().Unix() < f.Until
}

// first reports whether a form that is valid is sent for the first time.
func (s *site) first(r *http.Request, who owner, about string) (bool, error) {
	f, ok := s.formOf(r, who, about)
	if !ok {
		return false, nil
	}
	return visit.Once(r.Context(), s.c.store, "connect-form", f.ID, time.Until(time.Unix(f.Until, 0)))
}
