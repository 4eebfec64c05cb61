package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/oauth2"

	"github.com/troupe-dev/troupe/internal/weburl"
)

// Authorization is a request for a person's authorization, from the address that is opened to
// the redirect that answers it. It is of one use.
type Authorization struct {
	URL         string // to be shown and opened, as it is
	RedirectURI string
	Scopes      []string // that were asked for

	server          *Server
	state, verifier Secret
}

// Begin makes an authorization request: PKCE with S256, a state, the client's resource, and
// extra parameters such as "prompt". It refuses a server that does not say that it checks
// S256.
func (c *Client) Begin(redirectURI string, scopes []string, extra map[string]string) (*Authorization, error) {
	s := c.Server
	if s.AuthorizationEndpoint == "" {
		return nil, fmt.Errorf("asking for authorization: %w (authorization_endpoint)", ErrNotSupported)
	}
	if err := s.checkPKCE(); err != nil {
		return nil, err
	}
	a := &Authorization{RedirectURI: redirectURI, Scopes: scopes, server: s, state: newRandom(), verifier: newRandom()}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.verifier.Reveal())}
	for name, value := range extra {
		if ours(name) {
			return nil, fmt.Errorf("asking for authorization: the extra parameter %.40q is one that the client sets itself", name)
		}
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	if c.Resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", c.Resource))
	}
	if err := checkQuery(s.AuthorizationEndpoint); err != nil {
		return nil, err
	}
	config := oauth2.Config{ClientID: c.ID, RedirectURL: redirectURI, Scopes: scopes, Endpoint: oauth2.Endpoint{AuthURL: s.AuthorizationEndpoint}}
	v, err := weburl.Check(config.AuthCodeURL(a.state.Reveal(), options...))
	if err != nil {
		return nil, fmt.Errorf("authorization_endpoint: %w", err)
	}
	a.URL = v.URL
	return a, nil
}

// Secrets returns what has to be kept, sealed, for [Client.Resume].
func (a *Authorization) Secrets() (state, verifier Secret) { return a.state, a.verifier }

// Resume returns an authorization that was begun before, perhaps in another process, for the
// redirect that answers it.
func (c *Client) Resume(redirectURI string, scopes []string, state, verifier Secret) *Authorization {
	return &Authorization{RedirectURI: redirectURI, Scopes: scopes, server: c.Server, state: state, verifier: verifier}
}

// ours reports the parameters that a client sets.
func ours(name string) bool {
	switch name {
	case "response_type", "response_mode", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method", "resource", "request", "request_uri":
		return true
	}
	return false
}

// checkQuery refuses an endpoint that brings parameters of ours with it: of two the server may
// read either.
func checkQuery(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("authorization_endpoint: %w", weburl.ErrRefused)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("authorization_endpoint: %w: its query is malformed", weburl.ErrRefused)
	}
	for name := range query {
		if ours(name) {
			return fmt.Errorf("authorization_endpoint: %w: its query has the parameter %q", weburl.ErrRefused, name)
		}
	}
	return nil
}

// ErrForeign is the error of a redirect that does not answer the request: it has no state, or
// another. Any page can cause one, so the authorization still waits for its own.
var ErrForeign = errors.New("the redirect does not belong to this authorization")

// Bounds on redirects.
const (
	maxRedirect = 16 << 10 // bytes of the address
	maxCode     = 4 << 10  // bytes of the code
)

// Finish reads the redirect, an address or a query alone, and returns the code. The error is
// ErrForeign if it is not the answer, ErrIssuer if it comes from another authorization server
// (RFC 9207), of which nothing is used then, and an [Error] if the server refuses.
func (a *Authorization) Finish(redirect string) (code Secret, err error) {
	redirect = strings.TrimSpace(redirect) // it may be pasted
	if len(redirect) > maxRedirect {
		return code, fmt.Errorf("%w: it has more than %d bytes", ErrForeign, maxRedirect)
	}
	if _, query, found := strings.Cut(redirect, "?"); found {
		redirect = query
	}
	redirect, _, _ = strings.Cut(redirect, "#")
	values, err := url.ParseQuery(redirect)
	if err != nil {
		return code, fmt.Errorf("%w: its query is malformed", ErrForeign)
	}
	one := func(name string) string {
		if len(values[name]) != 1 { // RFC 6749 section 3.1: none comes twice
			return ""
		}
		return values[name][0]
	}
	if !a.state.Equal(NewSecret(one("state"))) {
		return code, ErrForeign
	}
	sent := []Secret{a.state, a.verifier}
	switch issuers := values["iss"]; {
	case len(issuers) == 0 && !a.server.IssInRedirect:
	case len(issuers) == 0:
		return code, fmt.Errorf("%w: the redirect does not say of which, and %.200s always does", ErrIssuer, a.server.Issuer)
	case len(issuers) > 1 || issuers[0] != a.server.Issuer:
		return code, fmt.Errorf("%w: the redirect says %q, want %.200q", ErrIssuer, cleanText(issuers[0], sent), a.server.Issuer)
	}
	if values.Has("error") {
		return code, &Error{Op: "asking for authorization", Code: cleanCode(one("error"), sent), Description: cleanText(one("error_description"), sent)}
	}
	switch text := one("code"); {
	case text == "":
		return code, fmt.Errorf("asking for authorization: the redirect has neither a code nor an error")
	case len(text) > maxCode:
		return code, fmt.Errorf("asking for authorization: the code has more than %d bytes", maxCode)
	default:
		return NewSecret(text), nil
	}
}
