package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// AuthMethod is how a client proves at the token endpoint who it is.
type AuthMethod string

// The ways to authenticate. A public client has none.
const (
	AuthNone  AuthMethod = "none"
	AuthBasic AuthMethod = "client_secret_basic"
	AuthPost  AuthMethod = "client_secret_post"
	AuthKey   AuthMethod = "private_key_jwt"
)

// Client is a client at one authorization server. Its secret and its key never go to another.
type Client struct {
	Server *Server
	ID     string
	Method AuthMethod
	Secret Secret      // of AuthBasic and AuthPost
	Key    *SigningKey // of AuthKey

	// Resource goes with each request (RFC 8707), exactly as it is published. "" leaves it
	// out, for servers that reject it.
	Resource string
	// DPoP is the key to which tokens are bound. Nil means bearer tokens.
	DPoP *DPoPKey
}

// ErrNotSupported is the error of an endpoint that the authorization server does not have.
var ErrNotSupported = errors.New("the authorization server has no such endpoint")

// form is a request to an endpoint of the server. Its secrets are revealed when it is sent.
type form struct {
	op      string // for errors
	values  map[string]string
	secrets map[string]Secret
}

// post sends a form to an endpoint, with the client's authentication. It returns the secrets
// that it has sent, for errors to leave out.
func (c *Client) post(ctx context.Context, hc *http.Client, endpoint string, f *form, header http.Header) (*answer, []Secret, error) {
	if endpoint == "" {
		return nil, nil, fmt.Errorf("%s: %w", f.op, ErrNotSupported)
	}
	values := make(url.Values)
	for name, v := range f.values {
		if v != "" {
			values.Set(name, v)
		}
	}
	var sent []Secret
	for name, s := range f.secrets {
		if !s.IsZero() {
			values.Set(name, s.Reveal())
			sent = append(sent, s)
		}
	}
	switch c.Method {
	case AuthNone:
		if c.ID != "" { // a workload may have none
			values.Set("client_id", c.ID)
		}
	case AuthBasic, AuthPost:
		if c.Secret.IsZero() {
			return nil, nil, fmt.Errorf("%s: the client %.100q has no secret for %s", f.op, c.ID, c.Method)
		}
		sent = append(sent, c.Secret)
		if c.Method == AuthPost {
			values.Set("client_id", c.ID)
			values.Set("client_secret", c.Secret.Reveal())
		}
	case AuthKey:
		assertion, err := c.Key.assertion(c.ID, c.Server.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.op, err)
		}
		sent = append(sent, assertion)
		values.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		values.Set("client_assertion", assertion.Reveal())
	default:
		return nil, nil, fmt.Errorf("%s: the way to authenticate %.40q is unknown: want %s, %s, %s or %s", f.op, c.Method, AuthNone, AuthBasic, AuthPost, AuthKey)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(values.Encode()))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.op, err)
	}
	for name, v := range header {
		req.Header[name] = v
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.Method == AuthBasic { // RFC 6749 section 2.3.1: both are encoded as in a form
		req.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret.Reveal()))
		sent = append(sent, NewSecret(strings.TrimPrefix(req.Header.Get("Authorization"), "Basic ")))
	}
	a, err := do(hc, req)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.op, err)
	}
	return a, sent, nil
}
