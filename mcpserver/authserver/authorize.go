package authserver

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/visit"
)

// request is what a client asks a person for.
type request struct {
	Client    string   `json:"client"`
	Redirect  string   `json:"redirect"`
	State     string   `json:"state,omitzero"`
	Challenge string   `json:"challenge"`
	Resource  string   `json:"resource"`
	Scopes    []string `json:"scopes,omitzero"`
}

// consent is a page that asks for consent: its form has it, sealed. Nothing is kept until the
// person agrees, so that pages cost no place.
type consent struct {
	Request request   `json:"request"`
	Person  person    `json:"person"`
	Browser string    `json:"browser"` // the hash of its cookie
	ID      string    `json:"id"`      // of the page, which counts once
	Until   time.Time `json:"until"`
}

const maxState = 2 << 10 // bytes

// authorization is the authorization endpoint, where a client sends a person, who is asked.
type authorization struct {
	*pages
	clients *clients
	grants  *grants
}

// visited serves the pages that people visit.
func (a *authorization) visited(w http.ResponseWriter, r *http.Request, name, more string) {
	visit.SetHeaders(w.Header(), "")
	switch status, text := visit.Admit(w, r, a.cross); {
	case status == http.StatusForbidden:
		a.forbid(w, r, text)
		return
	case status != 0:
		a.say(w, status, text)
		return
	case len(r.URL.RawQuery) > maxQuery:
		a.say(w, http.StatusRequestURITooLong, "The address of this page is too long.")
		return
	}
	var err error
	switch {
	case name != "authorize":
		err = a.opts.Login.serve(w, r, more)
	case r.Method == http.MethodPost:
		err = a.consented(w, r)
	default:
		err = a.authorize(w, r)
	}
	if err != nil {
		a.log.Error("a page has failed", "page", name, "error", err)
		a.say(w, http.StatusServiceUnavailable, "Something went wrong here. Nothing has changed. Try again in a while.")
	}
}

// authorize is the authorization endpoint: it asks the person, and changes nothing.
func (a *authorization) authorize(w http.ResponseWriter, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		a.say(w, http.StatusBadRequest, "The address of this page is malformed.")
		return nil
	}
	c, err := a.clients.find(r, one(query, "client_id"))
	var busy *refusal
	switch {
	case errors.Is(err, errNoClient):
		a.log.Info("a client is refused", "endpoint", "authorize", "error", err)
		a.say(w, http.StatusBadRequest, "The program that has sent you here is not known to this server, or what describes it cannot be read. Begin again in the program.")
		return nil
	case errors.As(err, &busy):
		a.say(w, http.StatusTooManyRequests, "Too many requests. Try again in a while.")
		return nil
	case err != nil:
		return err
	}
	to := one(query, "redirect_uri")
	if to == "" || !c.redirects(to) {
		a.log.Warn("a client is refused", "endpoint", "authorize", "client", c.ID, "reason", "the redirect URI is not one of its own")
		a.say(w, http.StatusBadRequest, "The program that has sent you here wants you to be sent on to an address that is not its own.")
		return nil
	}
	q, err := a.read(query, c, to)
	var refused *refusal
	if errors.As(err, &refused) {
		a.log.Info("a client is refused", "endpoint", "authorize", "client", c.ID, "code", refused.Code, "reason", refused.Description)
		a.sendError(w, c, &request{Client: c.ID, Redirect: to, State: one(query, "state")}, refused, c.trusts(to))
		return nil
	}
	if err != nil {
		return err
	}
	browser := a.cookies.Browser(w, r, browserCookie, browserLife)
	who, ok := a.visitor(r)
	if !ok {
		return a.opts.Login.enter(w, r, r.URL.RequestURI())
	}
	return a.ask(w, c, &consent{Request: *q, Person: who, Browser: visit.Digest(browser), ID: rand.Text(), Until: time.Now().Add(pageLife)})
}

// one returns a parameter that comes once.
func one(values url.Values, name string) string {
	if len(values[name]) != 1 {
		return ""
	}
	return values[name][0]
}

// read checks a request of a client whose redirect address is its own.
func (a *authorization) read(query url.Values, c *client, to string) (*request, error) {
	if err := once(query); err != nil {
		return nil, err
	}
	q := &request{Client: c.ID, Redirect: to, State: query.Get("state"), Challenge: query.Get("code_challenge")}
	mode, method := query.Get("response_mode"), query.Get("code_challenge_method")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(q.Challenge)
	switch {
	case query.Has("request") || query.Has("request_uri"):
		return nil, refuse("request_not_supported", "want the parameters themselves")
	case len(q.State) > maxState:
		return nil, refuse("invalid_request", "state is too long")
	case query.Get("response_type") != "code":
		return nil, refuse("unsupported_response_type", "response_type: want code")
	case mode != "" && mode != "query":
		return nil, refuse("invalid_request", "response_mode: want query")
	case q.Challenge == "":
		return nil, refuse("invalid_request", "code_challenge is missing: this server requires PKCE (RFC 7636)")
	case method != "S256": // without it "plain" is meant
		return nil, refuse("invalid_request", "code_challenge_method: want S256")
	case err != nil || len(raw) != 32:
		return nil, refuse("invalid_request", "code_challenge: want the SHA-256 of the verifier in base64url")
	case slices.Contains(strings.Fields(query.Get("prompt")), "none"):
		return nil, refuse("consent_required", "a person is asked each time")
	}
	switch want := query.Get("resource"); {
	case want == "" && len(a.opts.Resources) == 1: // a client of 2025-03-26 names none
		q.Resource = a.opts.Resources[0]
	case want != "" && slices.Contains(a.opts.Resources, canonical(want)):
		q.Resource = canonical(want)
	default:
		return nil, refuse("invalid_target", "resource: want one of the resources of this server")
	}
	return q, a.readScopes(q, query.Get("scope"))
}

// canonical is a resource in the form in which it is compared (AUTH-40); "" for none.
func canonical(resource string) string {
	if strings.Contains(resource, "#") {
		return ""
	}
	text, err := oauth.CanonicalResource(resource)
	if err != nil {
		return ""
	}
	return text
}

// readScopes takes the scopes that there are. Clients ask for more than that in good faith, such as
// openid.
func (a *authorization) readScopes(q *request, text string) error {
	asked := oauth.ParseScopes(text)
	for _, scope := range asked {
		if slices.Contains(a.opts.Scopes, scope) {
			q.Scopes = append(q.Scopes, scope)
		}
	}
	onlyOffline := !slices.ContainsFunc(asked, func(scope string) bool { return scope != offline })
	switch {
	case strings.TrimSpace(text) == "", len(q.Scopes) == 0 && onlyOffline && len(asked) > 0:
		q.Scopes = slices.Clone(a.opts.Default)
	case len(q.Scopes) == 0 && len(a.opts.Scopes) > 0:
		return refuse("invalid_scope", "this server has none of these scopes: want "+strings.Join(a.opts.Scopes, " "))
	}
	return nil
}

// sendError sends the browser back to the client with an error. Where that could lead a person
// astray, the page asks first (AUTH-08).
func (a *authorization) sendError(w http.ResponseWriter, c *client, q *request, refused *refusal, now bool) {
	if len(q.State) > maxState {
		q.State = ""
	}
	at := a.answerAddress(q, url.Values{"error": {refused.Code}, "error_description": {refused.Description}})
	if !now {
		a.back(w, c, q, refused, at)
		return
	}
	w.Header().Set("Location", at)
	w.WriteHeader(http.StatusSeeOther)
}

// answerAddress is where the browser goes with an answer. Each has the state and the issuer
// (RFC 9207).
func (a *authorization) answerAddress(q *request, values url.Values) string {
	values.Set("iss", a.opts.Issuer)
	if q.State != "" {
		values.Set("state", q.State)
	}
	sep := "?"
	if strings.Contains(q.Redirect, "?") {
		sep = "&"
	}
	return q.Redirect + sep + values.Encode()
}

// consented takes the answer of a person. The page was shown to this browser, and to the person who
// is still logged in there (CVE-2026-27124, SECA-24).
func (a *authorization) consented(w http.ResponseWriter, r *http.Request) error {
	var p consent
	cookie, err := r.Cookie(a.cookies.Name(browserCookie))
	who, ok := a.visitor(r)
	switch {
	case !a.cookies.OpenText(r.PostForm.Get("token"), "consent", &p) || !time.Now().Before(p.Until):
		a.forbid(w, r, "a form without the token of its page")
		return nil
	case err != nil || !oauth.NewSecret(visit.Digest(cookie.Value)).Equal(oauth.NewSecret(p.Browser)):
		a.forbid(w, r, "a consent of another browser")
		return nil
	case !ok || who != p.Person:
		a.forbid(w, r, "a consent of another person")
		return nil
	}
	switch first, err := visit.Once(r.Context(), a.opts.Store, "authserver-consent", p.ID, time.Until(p.Until)); {
	case err != nil:
		return fmt.Errorf("consenting: %w", err)
	case !first:
		a.forbid(w, r, "a form that was sent before")
		return nil
	}
	q := &p.Request
	c, err := a.clients.find(r, q.Client)
	if errors.Is(err, errNoClient) || err == nil && !c.redirects(q.Redirect) {
		a.forbid(w, r, "a consent for a client that is gone")
		return nil
	}
	if err != nil {
		return err
	}
	if r.PostForm.Get("do") != "allow" {
		a.log.Info("a person refuses a client", "client", c.ID, "subject", who.Subject)
		a.sendError(w, c, q, &refusal{Code: "access_denied", Description: "the person has refused"}, true)
		return nil
	}
	code, err := a.grants.putCode(r.Context(), &grant{
		Client: c.ID, Subject: who.Subject, Login: who.Login, Resource: q.Resource, Scopes: q.Scopes, Redirect: q.Redirect, Challenge: q.Challenge, Created: time.Now(),
	})
	if err != nil {
		return fmt.Errorf("consenting: %w", err)
	}
	w.Header().Set("Location", a.answerAddress(q, url.Values{"code": {code}}))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}
