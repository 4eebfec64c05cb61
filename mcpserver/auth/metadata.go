package auth

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
)

const wellKnownRoot = "/.well-known/oauth-protected-resource"

// wellKnown is the path of a resource's metadata (RFC 9728, section 3.1).
func wellKnown(resource *url.URL) string {
	return wellKnownRoot + strings.TrimSuffix(resource.EscapedPath(), "/")
}

// document is the JSON of the metadata.
type document struct {
	Resource   string   `json:"resource"`
	Servers    []string `json:"authorization_servers"`
	Scopes     []string `json:"scopes_supported,omitempty"`
	Methods    []string `json:"bearer_methods_supported"`
	Name       string   `json:"resource_name,omitempty"`
	Algorithms []string `json:"dpop_signing_alg_values_supported"`
	DPoP       bool     `json:"dpop_bound_access_tokens_required,omitzero"`
}

// Metadata serves the metadata of resources (RFC 9728), each at its own path below
// /.well-known/oauth-protected-resource, and the only one there itself, too. It is public, so
// any page may read it.
func Metadata(of ...*ResourceServer) http.Handler {
	pages := make(map[string][]byte)
	for _, s := range of {
		d := document{Resource: s.opts.Resource, Scopes: s.opts.Scopes.Supported, Methods: []string{"header"}, Name: s.opts.Name,
			Algorithms: oauth.AcceptedAlgorithms(), DPoP: s.opts.RequireDPoP}
		for _, i := range s.opts.Issuers {
			d.Servers = append(d.Servers, i.URL)
		}
		page, err := jsonx.Marshal(&d)
		if err != nil { // texts can always be encoded
			page = []byte("{}")
		}
		pages[wellKnown(s.resource)] = page
		if len(of) == 1 {
			pages[wellKnownRoot] = page
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.EscapedPath()]
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		switch {
		case !ok:
			http.NotFound(w, r)
		case r.Method == http.MethodOptions: // of a browser, for the header of the version
			h.Set("Access-Control-Allow-Methods", "GET")
			h.Set("Access-Control-Allow-Headers", "mcp-protocol-version")
			w.WriteHeader(http.StatusNoContent)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "public, max-age=300")
			h.Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(page) // an error means that the client has gone
		}
	})
}
