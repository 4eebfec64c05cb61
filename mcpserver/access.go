// access.go: what the sender of a request over HTTP must be allowed to do.

package mcpserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/access"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// Principal is the sender of requests, as [HTTPOptions].Authenticate returns it. It must not
// be changed afterwards: requests may share it.
type Principal struct {
	// ID names the principal for ever, such as the issuer and subject of a token: sessions,
	// tasks and answers of one ID are out of reach for all others.
	ID string
	// Issuer and Subject are the two parts of ID where a token has them, and ClientID is the
	// client that the token was issued to.
	Issuer, Subject, ClientID string
	// Machine says that a client acts for itself: there is no person behind its requests.
	Machine bool
	// Scopes are those that were granted.
	Scopes []string
	// Expiry is when the requests' token ends. Then event streams, subscriptions and handlers
	// that are kept for a client's answers end too; the client comes back with another token.
	// Zero is never.
	Expiry time.Time
	// Attributes are values of Authenticate for the handlers.
	Attributes any
}

// id returns the ID of a principal; empty for none.
func (p *Principal) id() string {
	if p == nil {
		return ""
	}
	return p.ID
}

// expiry returns when the principal's token ends; zero is never.
func (p *Principal) expiry() time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.Expiry
}

// AuthError refuses a request over HTTP with a status of its own: as an error of
// [HTTPOptions].Authenticate and Authorize, of a [Middleware], and of a handler, where it
// refuses the request if nothing of the answer is written yet. Where there is no status to
// give, on pipes, in batches and on event streams, it is an error as others are.
type AuthError struct {
	Status    int    // 400, 401, 403, or 503 where it cannot be found out; zero is 401
	Challenge string // the value of WWW-Authenticate; may be empty (RFC 9110, 11.6.1)
	Nonce     string // the value of DPoP-Nonce; may be empty (RFC 9449, section 9)
	Err       error  // for logs, and for the model where there is no status to give; may be nil
}

func (e *AuthError) Error() string {
	if e.Err == nil {
		return "not authorized"
	}
	return "not authorized: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *AuthError) Unwrap() error { return e.Err }

// refusal returns the error as package web knows it.
func (e *AuthError) refusal() *web.Refusal {
	return &web.Refusal{Status: e.Status, Challenge: e.Challenge, Nonce: e.Nonce, Err: e}
}

// EntryOption changes how a tool, resource, resource template or prompt is offered.
type EntryOption struct{ scopes []string }

// Scopes are what the sender of a request over HTTP needs to use an entry: all of them. A
// sender without them is refused by [HTTPOptions].Authorize. It has no effect on pipes and
// in-memory links, whose client is trusted.
func Scopes(names ...string) EntryOption { return EntryOption{scopes: names} }

// scopesOf returns the scopes of an entry, nil for none.
func scopesOf(options []EntryOption) (all []string) {
	for _, o := range options {
		all = append(all, o.scopes...)
	}
	return all
}

// ScopeRule adds scopes to requests, beside those of [Scopes]. All rules that fit a request
// count.
type ScopeRule struct {
	// Method is the method of the requests. Empty is any.
	Method string
	// Name is a pattern of the names of tools and prompts, or of URIs: * stands for any
	// number of any characters. Empty is any.
	Name   string
	Scopes []string
}

func (o *HTTPOptions) rules() access.Rules {
	var all access.Rules
	for _, r := range o.ScopeRules {
		all = append(all, access.Rule(r))
	}
	return all
}

// permit returns an error unless the sender of a request over HTTP may use what has this name
// and these scopes (AUTH-60).
func permit(s *session, a *arrival, method, name string, own []string) error {
	if s.in != nil || len(own) == 0 && len(s.server.rules) == 0 { // AUTH-02
		return nil
	}
	needs := s.server.rules.Needs(method, name, own)
	if len(needs) == 0 {
		return nil
	}
	if authorize := s.server.opts.HTTP.Authorize; authorize != nil {
		return authorize(a.principal, needs)
	}
	return granted(a.principal, needs)
}

// permitReading is permit for the reading of a resource, which a subscription is a kind of.
func permitReading(s *session, a *arrival, uri string) error {
	var own []string
	if r, ok := s.server.resources.Now().Get(uri); ok {
		own = r.needs
	} else if t, _ := s.server.templateFor(uri); t != nil {
		own = t.needs
	}
	return permit(s, a, mcp.MethodReadResource, uri, own)
}

// granted is HTTPOptions.Authorize if there is none.
func granted(p *Principal, needs []string) error {
	if p == nil {
		return &AuthError{Status: http.StatusUnauthorized, Err: errors.New("an anonymous sender has no scopes")}
	}
	lacks := slices.DeleteFunc(slices.Clone(needs), func(scope string) bool { return slices.Contains(p.Scopes, scope) })
	if len(lacks) == 0 {
		return nil
	}
	return &AuthError{
		Status: http.StatusForbidden, Challenge: fmt.Sprintf(`Bearer error="insufficient_scope", scope="%s"`, strings.Join(needs, " ")),
		Err: fmt.Errorf("the scopes %s are missing", strings.Join(lacks, ", ")),
	}
}

// permitBatch is permit for all requests of an array: one that is refused refuses the array,
// before any of it is carried out.
func permitBatch(s *session, from *Principal, data []byte) error {
	if s.in != nil {
		return nil
	}
	var m mcp.Message
	return mcp.ScanBatch(data, maxBatch, func(raw []byte) error {
		a := arrival{Message: &m, principal: from}
		if mcp.Scan(raw, &m) != nil || m.Kind != mcp.KindRequest || s.admit(&a) != nil {
			return nil // it is answered in its turn
		}
		row := methods[a.Method]
		if row.find == nil {
			return permit(s, &a, a.Method, a.label(), nil)
		}
		w, err := row.find(s, &a)
		if err != nil {
			return nil
		}
		return permit(s, &a, a.Method, w.name(), w.scopes())
	})
}

// refuses answers a request with the status of an [AuthError], if err is one and nothing of
// the answer is written yet.
func refuses(to port.Port, id mcp.ID, err error) bool {
	x, overHTTP := to.(*web.Exchange)
	if !overHTTP {
		return false
	}
	e, ok := errors.AsType[*AuthError](err)
	return ok && x.Refuse(id, e.refusal())
}

// wireOf returns an error as it is sent.
func wireOf(err error) *mcp.Error {
	if e, ok := errors.AsType[*AuthError](err); ok {
		return mcp.Errorf(mcp.CodeInvalidRequest, "%s", e.Error())
	}
	return mcp.ErrorOf(err)
}

// mayRefuse reports whether the error of a handler can refuse its request.
func mayRefuse(r *request) bool {
	to := Request{r}
	x, overHTTP := to.live().port.(*web.Exchange)
	return overHTTP && !x.Streams()
}
