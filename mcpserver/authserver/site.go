package authserver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/webserver"
)

// site is what all parts of a server know: its options, its addresses and its log.
type site struct {
	opts Options
	base *url.URL // its path has no slash at the end
	log  *slog.Logger
}

// address checks the issuer, and takes it apart.
func (s *site) address() error {
	_, err := oauth.ServerAddresses(s.opts.Issuer, true)
	if err == nil && !strings.HasPrefix(s.opts.Issuer, "https://") && !oauth.OnLoopback(s.opts.Issuer) {
		err = errors.New("want https")
	}
	if err == nil {
		s.base, err = url.Parse(s.opts.Issuer)
	}
	if err != nil || s.base.Fragment != "" || s.base.RawPath != "" || strings.HasSuffix(s.base.Path, "/") {
		return fmt.Errorf("authserver: Options.Issuer %q: want https://host or https://host/path, without a slash at the end, query and fragment (%w)", s.opts.Issuer, cmp.Or(err, errors.ErrUnsupported))
	}
	return nil
}

// document is the metadata (RFC 8414, OpenID Connect Discovery).
type document struct {
	Issuer        string   `json:"issuer"`
	Authorize     string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Register      string   `json:"registration_endpoint,omitempty"`
	Revoke        string   `json:"revocation_endpoint"`
	JWKS          string   `json:"jwks_uri"`
	Scopes        []string `json:"scopes_supported,omitempty"`
	ResponseTypes []string `json:"response_types_supported"`
	ResponseModes []string `json:"response_modes_supported"`
	GrantTypes    []string `json:"grant_types_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	RevokeMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	PKCE          []string `json:"code_challenge_methods_supported"`
	Iss           bool     `json:"authorization_response_iss_parameter_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
	Subjects      []string `json:"subject_types_supported"`
	Signing       []string `json:"id_token_signing_alg_values_supported"`
}

func (s *site) metadata() *document {
	methods := []string{string(oauth.AuthNone), string(oauth.AuthBasic), string(oauth.AuthPost)}
	d := &document{
		Issuer: s.opts.Issuer, Authorize: s.at("authorize"), Token: s.at("token"), Revoke: s.at("revoke"), JWKS: s.at("jwks"), Scopes: s.opts.Scopes,
		ResponseTypes: []string{"code"}, ResponseModes: []string{"query"}, GrantTypes: []string{grantCode, grantRefresh}, AuthMethods: methods, RevokeMethods: methods,
		PKCE: []string{"S256"}, Iss: true, Documents: !s.opts.NoDocuments, Subjects: []string{"public"}, Signing: []string{"ES256"},
	}
	if !s.opts.NoRegistration {
		d.Register = s.at("register")
	}
	return d
}

// at returns the address of an endpoint, and path that on this host.
func (s *site) at(name string) string   { return s.opts.Issuer + "/" + name }
func (s *site) path(name string) string { return s.base.Path + "/" + name }

// wellKnown are the paths of the metadata.
func (s *site) wellKnown() []string {
	const server, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	if s.base.Path == "" {
		return []string{server, openID}
	}
	return []string{server + s.base.Path, openID + s.base.Path, s.base.Path + openID}
}

// addressOf returns where a request comes from.
func (s *site) addressOf(r *http.Request) string {
	if s.opts.Address != nil {
		return s.opts.Address(r)
	}
	return webserver.Address(r, false)
}

// sourceOf returns what a request counts as for limits.
func (s *site) sourceOf(r *http.Request) string { return webserver.Source(s.addressOf(r)) }

// answer writes JSON.
func (s *site) answer(w http.ResponseWriter, status int, value any) {
	raw, err := jsonx.Marshal(value)
	if err != nil {
		s.log.Error("an answer cannot be written", "error", err)
		status, raw = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // an error means that the client has gone
}

// refusal is an error that a client is told (RFC 6749, section 5.2).
type refusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	status      int    // zero is 400
}

func (e *refusal) Error() string { return e.Code + ": " + e.Description }

func refuse(code, why string) error { return &refusal{Code: code, Description: why} }

// readForm reads a form, in which nothing comes twice but what may.
func readForm(r *http.Request, twice ...string) (url.Values, error) {
	if r.ParseForm() != nil {
		return nil, refuse("invalid_request", "the form cannot be read, or is too large")
	}
	return r.PostForm, once(r.PostForm, twice...)
}

// once refuses parameters that come twice (RFC 6749, section 3.1).
func once(values url.Values, twice ...string) error {
	for name, all := range values {
		if len(all) > 1 && !slices.Contains(twice, name) {
			return refuse("invalid_request", fmt.Sprintf("the parameter %.40q comes twice", name))
		}
	}
	return nil
}

// The grant types.
const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
)
