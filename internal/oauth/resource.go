package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/troupe-dev/troupe/internal/sanitize"
)

// ErrOtherResource is the error of metadata that is not about the MCP server: a token for
// what it names would be another's.
var ErrOtherResource = errors.New("the metadata is about another resource")

// maxServers bounds the authorization servers of one resource.
const maxServers = 16

// Resource is the metadata of a protected resource (RFC 9728).
type Resource struct {
	URI     string   // the resource exactly as it is published, to be sent as "resource"
	Servers []string // issuers, not yet checked; the client chooses one
	Scopes  []string // scopes_supported
	Name    string   // for people, cleaned; may be ""
	DPoP    bool     // tokens must be bound to a key
	From    string   // the address of the metadata
}

// resourceDocument is its JSON.
type resourceDocument struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Name     string   `json:"resource_name"`
	DPoP     bool     `json:"dpop_bound_access_tokens_required"`
}

const resourceWellKnown = "/.well-known/oauth-protected-resource"

// ResourceAddresses returns where the metadata of an MCP server may be, in the order in which
// it is looked for: where the challenge says, if that may be asked; below the well-known path
// with the server's path; the well-known path of the host. Challenged may be "".
func ResourceAddresses(mcpURL, challenged string) ([]string, error) {
	u, err := parse("the address of the MCP server", mcpURL, true)
	if err != nil {
		return nil, err
	}
	var all []string
	if challenged != "" {
		if at, err := checkAddress("resource_metadata", challenged, OnLoopback(mcpURL)); err == nil {
			all = append(all, at)
		}
	}
	root := origin(u) + resourceWellKnown
	for _, at := range []string{root + strings.TrimSuffix(u.EscapedPath(), "/"), root} {
		if len(all) == 0 || all[len(all)-1] != at {
			all = append(all, at)
		}
	}
	return all, nil
}

// FetchResource finds and checks the metadata of an MCP server. Challenged is the address in
// the server's challenge, or "". The error is ErrNoMetadata if the server has none, and
// ErrOtherResource if it is not about this server.
func FetchResource(ctx context.Context, hc *http.Client, mcpURL, challenged string) (*Resource, error) {
	places, err := ResourceAddresses(mcpURL, challenged)
	if err != nil {
		return nil, err
	}
	return find(ctx, hc, places, nil, func(at string, a *answer) (*Resource, error) {
		var d resourceDocument
		if err := a.decode(&d); err != nil {
			return nil, err
		}
		if err := Covers(d.Resource, mcpURL); err != nil {
			return nil, err
		}
		if len(d.Servers) > maxServers {
			return nil, fmt.Errorf("%w: it lists %d authorization servers, want at most %d", ErrMalformed, len(d.Servers), maxServers)
		}
		return &Resource{URI: d.Resource, Servers: d.Servers, Scopes: cleanScopes(d.Scopes), Name: sanitize.Line(d.Name, 100), DPoP: d.DPoP, From: at}, nil
	})
}

// Covers checks that a resource is the MCP server, or a path of the same origin above it.
func Covers(resource, mcpURL string) error {
	if resource == "" {
		return fmt.Errorf("%w: it names none", ErrOtherResource)
	}
	r, err := parse("resource", resource, true)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOtherResource, err)
	}
	m, err := parse("the address of the MCP server", mcpURL, true)
	if err != nil {
		return err
	}
	above := strings.TrimSuffix(r.EscapedPath(), "/")
	same := origin(r) == origin(m) && (r.RawQuery == "" || r.RawQuery == m.RawQuery) &&
		strings.HasPrefix(strings.TrimSuffix(m.EscapedPath(), "/")+"/", above+"/")
	if !same {
		m.RawQuery = "" // it may have a secret
		return fmt.Errorf("%w: it is about %.200s, and not %.200s", ErrOtherResource, r, m)
	}
	return nil
}

// CanonicalResource returns the address of an MCP server as RFC 8707 and MCP want it in
// "resource", for a server whose metadata does not say: the scheme and the host in small
// letters, no fragment, no bare slash behind the host.
func CanonicalResource(mcpURL string) (string, error) {
	bare, _, _ := strings.Cut(mcpURL, "#")
	u, err := parse("the address of the MCP server", bare, true)
	if err != nil {
		return "", err
	}
	if u.Path == "/" && u.RawQuery == "" {
		return origin(u), nil
	}
	return u.String(), nil
}
