package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/weburl"
)

// ErrIssuer is the error of metadata or of a redirect that belongs to another authorization
// server than the one that was asked.
var ErrIssuer = errors.New("it is of another issuer")

// Server is what an authorization server says of itself, checked. Addresses that are "" are
// not there.
type Server struct {
	Issuer                string
	AuthorizationEndpoint string
	TokenEndpoint         string
	RegistrationEndpoint  string
	RevocationEndpoint    string
	IntrospectionEndpoint string
	DeviceEndpoint        string
	JWKS                  string

	Scopes           []string // scopes_supported
	GrantTypes       []string
	AuthMethods      []string // of the token endpoint
	AuthAlgorithms   []string // of assertions for it
	PKCEMethods      []string
	DPoPAlgorithms   []string
	ClientIDDocument bool // a client id may be the address of a document
	IssInRedirect    bool // each redirect has the parameter iss (RFC 9207)

	Legacy   bool   // it is the server of 2025-03-26, found at the origin of the MCP server
	From     string // the address of the metadata; "" if there is none, and the endpoints are the default ones
	Loopback bool   // it may be on this machine
}

// serverDocument is the JSON of RFC 8414 and of OpenID Connect Discovery.
type serverDocument struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	IntrospectionEndpoint string   `json:"introspection_endpoint"`
	DeviceEndpoint        string   `json:"device_authorization_endpoint"`
	JWKS                  string   `json:"jwks_uri"`
	Scopes                []string `json:"scopes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	AuthAlgorithms        []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	PKCEMethods           []string `json:"code_challenge_methods_supported"`
	DPoPAlgorithms        []string `json:"dpop_signing_alg_values_supported"`
	ClientIDDocument      bool     `json:"client_id_metadata_document_supported"`
	IssInRedirect         bool     `json:"authorization_response_iss_parameter_supported"`
}

const (
	serverWellKnown = "/.well-known/oauth-authorization-server"
	openIDWellKnown = "/.well-known/openid-configuration"
)

// ServerAddresses returns where the metadata of an issuer may be, in the order in which it is
// looked for. Loopback permits an issuer on this machine.
func ServerAddresses(issuer string, loopback bool) ([]string, error) {
	u, err := parse("issuer", issuer, loopback)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, fmt.Errorf("issuer: %w: it has a query", weburl.ErrRefused)
	}
	at, path := origin(u), strings.TrimSuffix(u.EscapedPath(), "/")
	if path == "" {
		return []string{at + serverWellKnown, at + openIDWellKnown}, nil
	}
	return []string{at + serverWellKnown + path, at + openIDWellKnown + path, at + path + openIDWellKnown}, nil
}

// FetchServer finds and checks the metadata of an issuer, which must be the one in it, byte
// by byte. Loopback permits addresses on this machine, see [OnLoopback].
func FetchServer(ctx context.Context, hc *http.Client, issuer string, loopback bool) (*Server, error) {
	places, err := ServerAddresses(issuer, loopback)
	if err != nil {
		return nil, err
	}
	return find(ctx, hc, places, nil, func(at string, a *answer) (*Server, error) {
		return readServer(at, a, loopback, func(got string) bool { return got == issuer }, issuer)
	})
}

// ClockAhead returns how far the clock of an issuer is ahead of this machine's, to the second.
func ClockAhead(ctx context.Context, hc *http.Client, issuer string, loopback bool) (time.Duration, error) {
	places, err := ServerAddresses(issuer, loopback)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, places[0], nil)
	if err != nil {
		return 0, err
	}
	a, err := do(hc, req)
	if err != nil {
		return 0, err
	}
	date, err := http.ParseTime(a.header.Get("Date"))
	if err != nil {
		return 0, fmt.Errorf("%.200s does not say what time it is", issuer)
	}
	return time.Until(date).Round(time.Second), nil
}

// FetchServerAt reads and checks metadata at the address that a user has configured. With the
// issuer "" it may be of any.
func FetchServerAt(ctx context.Context, hc *http.Client, at, issuer string, loopback bool) (*Server, error) {
	at, err := checkAddress("the address of the metadata", at, loopback)
	if err != nil {
		return nil, err
	}
	return find(ctx, hc, []string{at}, nil, func(at string, a *answer) (*Server, error) {
		return readServer(at, a, loopback, func(got string) bool { return got != "" && (issuer == "" || got == issuer) }, issuer)
	})
}

// FetchLegacyServer finds the authorization server of an MCP server of 2025-03-26: by metadata
// at its origin, else the default endpoints are it. Version is the value of
// MCP-Protocol-Version. The caller must know that the MCP server never had resource metadata.
func FetchLegacyServer(ctx context.Context, hc *http.Client, mcpURL, version string) (*Server, error) {
	u, err := parse("the address of the MCP server", mcpURL, true)
	if err != nil {
		return nil, err
	}
	base, loopback := origin(u), OnLoopback(mcpURL)
	header := http.Header{"Mcp-Protocol-Version": {version}}
	s, err := find(ctx, hc, []string{base + serverWellKnown}, header, func(at string, a *answer) (*Server, error) {
		// The client derives the issuer and is not given it, so a bare slash makes no difference.
		return readServer(at, a, loopback, func(got string) bool { return strings.TrimSuffix(got, "/") == base }, base)
	})
	switch {
	case errors.Is(err, ErrNoMetadata):
		s = &Server{Issuer: base, AuthorizationEndpoint: base + "/authorize", TokenEndpoint: base + "/token", RegistrationEndpoint: base + "/register", Loopback: loopback}
	case err != nil:
		return nil, err
	}
	s.Legacy = true
	return s, nil
}

func readServer(at string, a *answer, loopback bool, issued func(string) bool, want string) (*Server, error) {
	var d serverDocument
	if err := a.decode(&d); err != nil {
		return nil, err
	}
	if !issued(d.Issuer) {
		return nil, fmt.Errorf("%w: the metadata says %.200q, and it was asked for %.200q", ErrIssuer, d.Issuer, want)
	}
	s := &Server{Issuer: d.Issuer, Scopes: cleanScopes(d.Scopes), GrantTypes: d.GrantTypes, AuthMethods: d.AuthMethods, AuthAlgorithms: d.AuthAlgorithms,
		PKCEMethods: d.PKCEMethods, DPoPAlgorithms: d.DPoPAlgorithms, ClientIDDocument: d.ClientIDDocument, IssInRedirect: d.IssInRedirect, From: at, Loopback: loopback}
	for _, e := range []struct {
		name, raw string
		to        *string
	}{
		{"authorization_endpoint", d.AuthorizationEndpoint, &s.AuthorizationEndpoint},
		{"token_endpoint", d.TokenEndpoint, &s.TokenEndpoint},
		{"registration_endpoint", d.RegistrationEndpoint, &s.RegistrationEndpoint},
		{"revocation_endpoint", d.RevocationEndpoint, &s.RevocationEndpoint},
		{"introspection_endpoint", d.IntrospectionEndpoint, &s.IntrospectionEndpoint},
		{"device_authorization_endpoint", d.DeviceEndpoint, &s.DeviceEndpoint},
		{"jwks_uri", d.JWKS, &s.JWKS},
	} {
		if e.raw == "" {
			continue
		}
		var err error
		if *e.to, err = checkAddress(e.name, e.raw, loopback); err != nil {
			return nil, err
		}
	}
	if s.TokenEndpoint == "" {
		return nil, fmt.Errorf("%w: it has no token_endpoint", ErrMalformed)
	}
	return s, nil
}
