package oauth

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Metadata describes a client: the request of a dynamic registration (RFC 7591), and the
// document at the address that is a client id.
type Metadata struct {
	ClientID        string     `json:"client_id,omitempty"` // of a document only
	Name            string     `json:"client_name,omitempty"`
	URI             string     `json:"client_uri,omitempty"`
	RedirectURIs    []string   `json:"redirect_uris,omitempty"`
	GrantTypes      []string   `json:"grant_types,omitempty"`
	ResponseTypes   []string   `json:"response_types,omitempty"`
	AuthMethod      AuthMethod `json:"token_endpoint_auth_method,omitempty"`
	ApplicationType string     `json:"application_type,omitempty"` // "native" or "web"
	Scope           string     `json:"scope,omitempty"`
	SoftwareID      string     `json:"software_id,omitempty"`
	SoftwareVersion string     `json:"software_version,omitempty"`
	JWKSURI         string     `json:"jwks_uri,omitempty"`
	DPoP            bool       `json:"dpop_bound_access_tokens,omitzero"`
}

// Registered is what a registration gave.
type Registered struct {
	ID            string
	Secret        Secret
	SecretExpires time.Time // zero: never
	Method        AuthMethod
	// ManageURI and ManageToken are for changing and deleting the registration (RFC 7592).
	ManageURI   string
	ManageToken Secret
}

// registeredDocument is its JSON.
type registeredDocument struct {
	ID            string     `json:"client_id"`
	Secret        Secret     `json:"client_secret"`
	SecretExpires float64    `json:"client_secret_expires_at"`
	RedirectURIs  []string   `json:"redirect_uris"`
	Method        AuthMethod `json:"token_endpoint_auth_method"`
	ManageURI     string     `json:"registration_client_uri"`
	ManageToken   Secret     `json:"registration_access_token"`
}

// Bounds on what a registration gives.
const (
	maxClientID     = 2 << 10
	maxClientSecret = 8 << 10
)

// Register registers a client. Initial is an initial access token, or zero.
func Register(ctx context.Context, hc *http.Client, s *Server, m *Metadata, initial Secret) (*Registered, error) {
	const op = "registering the client"
	if s.RegistrationEndpoint == "" {
		return nil, fmt.Errorf("%s: %w (registration_endpoint)", op, ErrNotSupported)
	}
	body, err := jsonx.Marshal(m)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.RegistrationEndpoint, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if !initial.IsZero() {
		req.Header.Set("Authorization", "Bearer "+initial.Reveal())
	}
	a, err := do(hc, req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if a.status != http.StatusCreated && a.status != http.StatusOK {
		return nil, refusal(op, a, []Secret{initial})
	}
	var d registeredDocument
	if err := a.decodeSecret(&d); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	r, err := d.registered(m, s.Loopback)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", op, ErrMalformed, err)
	}
	return r, nil
}

// registered checks the answer.
func (d *registeredDocument) registered(m *Metadata, loopback bool) (*Registered, error) {
	r := &Registered{ID: d.ID, Secret: d.Secret, Method: d.Method, ManageToken: d.ManageToken}
	if !isVisible(d.ID, maxClientID) {
		return nil, fmt.Errorf("client_id is missing, too long, or has characters that it may not have")
	}
	if !d.Secret.IsZero() && !isVisible(d.Secret.Reveal(), maxClientSecret) || !d.ManageToken.IsZero() && !isVisible(d.ManageToken.Reveal(), maxClientSecret) {
		return nil, fmt.Errorf("client_secret or registration_access_token is too long, or has characters that it may not have")
	}
	for _, uri := range m.RedirectURIs {
		if d.RedirectURIs != nil && !slices.Contains(d.RedirectURIs, uri) {
			return nil, fmt.Errorf("redirect_uris does not have the one that was registered, %.200s", uri)
		}
	}
	switch r.Method {
	case "":
		r.Method = m.AuthMethod
	case AuthNone, AuthBasic, AuthPost, AuthKey:
	default:
		return nil, fmt.Errorf("token_endpoint_auth_method is none that the client knows")
	}
	if (r.Method == AuthBasic || r.Method == AuthPost) && r.Secret.IsZero() {
		return nil, fmt.Errorf("token_endpoint_auth_method is %s, and there is no client_secret", r.Method)
	}
	if s := d.SecretExpires; s > 0 && s < 1<<40 {
		r.SecretExpires = time.Unix(int64(s), 0)
	}
	if d.ManageURI != "" {
		var err error
		if r.ManageURI, err = checkAddress("registration_client_uri", d.ManageURI, loopback); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// isVisible reports a text of the characters that RFC 6749 allows in ids and secrets.
func isVisible(s string, size int) bool {
	return s != "" && len(s) <= size && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// CheckClientID checks that a client id is the address of a document about the client: https,
// with a path, and nothing that could be read in two ways.
func CheckClientID(id string) error {
	u, err := parse("the client id", id, true)
	switch {
	case err != nil:
		return err
	case u.Scheme != "https" || u.Path == "/" || u.String() != id:
		return fmt.Errorf("the client id %.200q: want https://host/path, in its canonical form", id)
	}
	return nil
}

// Check checks the document at a client id.
func (m *Metadata) Check(id string) error {
	switch {
	case m.ClientID != id:
		return fmt.Errorf("%w: client_id is %.200q, want its address, %.200q", ErrMalformed, m.ClientID, id)
	case m.Name == "":
		return fmt.Errorf("%w: it has no client_name", ErrMalformed)
	case len(m.RedirectURIs) == 0:
		return fmt.Errorf("%w: it has no redirect_uris", ErrMalformed)
	case m.AuthMethod == AuthBasic || m.AuthMethod == AuthPost:
		return fmt.Errorf("%w: token_endpoint_auth_method is %s, and a public document has no secret", ErrMalformed, m.AuthMethod)
	}
	for _, raw := range m.RedirectURIs {
		if u, err := url.Parse(raw); err != nil || u.Scheme == "" || u.Fragment != "" || u.User != nil {
			return fmt.Errorf("%w: %.200q is no redirect URI", ErrMalformed, raw)
		}
	}
	return nil
}

// FetchMetadata reads and checks the document at a client id.
func FetchMetadata(ctx context.Context, hc *http.Client, id string) (*Metadata, error) {
	if err := CheckClientID(id); err != nil {
		return nil, err
	}
	return find(ctx, hc, []string{id}, nil, func(_ string, a *answer) (*Metadata, error) {
		m := new(Metadata)
		if err := a.decode(m); err != nil {
			return nil, err
		}
		return m, m.Check(id)
	})
}
