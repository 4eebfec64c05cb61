package authserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/internal/vault"
	"github.com/troupe-dev/troupe/mcpserver/auth"
	"github.com/troupe-dev/troupe/mcpserver/internal/ratelimit"
	"github.com/troupe-dev/troupe/mcpserver/internal/visit"
	"github.com/troupe-dev/troupe/store"
)

// Options says for whom and for what tokens are issued. Issuer, Resources, Login, Store and Keys
// are required.
type Options struct {
	// Issuer is the address of the authorization server: https, or http on this machine. Its
	// endpoints are below; clients of 2025-03-26 find them only if it has no path.
	Issuer string
	// Resources are the addresses of the MCP endpoints that tokens may be for.
	Resources []string
	// Scopes are what tokens may be for. Default are those of a client that asks for none; nil is
	// all.
	Scopes, Default []string
	// Login finds out who visits a page.
	Login Login
	// Active reports whether a person may still use what was granted. It is asked when a client
	// renews its tokens, and at most twice a minute by a resource server in this process. Nil
	// leaves it to the login.
	Active func(ctx context.Context, subject string) (bool, error)
	// Clients are known without registration.
	Clients []Client
	// NoRegistration refuses clients that register, NoDocuments those whose id is the address of a
	// document.
	NoRegistration, NoDocuments bool
	// Store keeps grants, registrations and the signing key. Instances share it.
	Store Store
	// Keys seal what is kept: 32 random bytes each; the first seals, all open.
	Keys [][]byte
	// Name is what pages call the server. Empty is the host of Issuer.
	Name string
	// AccessLife is how long access tokens are good, and GrantLife after what time a person has to
	// log in again. Zero means 15 minutes and 30 days.
	AccessLife, GrantLife time.Duration
	// Address returns where a request comes from, for limits, such as by a header of your proxy.
	// Nil is the address of the connection.
	Address func(*http.Request) string
	// Logger takes structured logs: a line for each login, grant, refusal and revocation. Nil
	// discards them.
	Logger *slog.Logger
	// HTTP fetches the documents of clients. Nil is a client that contacts public addresses by
	// https.
	HTTP *http.Client
}

// Store is a part of store.Store.
type Store interface {
	store.Vault
	store.Records
}

// Server is an authorization server. Its methods may be used from any goroutine, and nothing has to
// be closed.
type Server struct {
	opts    Options
	base    *url.URL // its path has no slash at the end
	log     *slog.Logger
	vault   *vault.Vault
	cookies visit.Cookies
	cross   *http.CrossOriginProtection
	clients map[string]*client
	docs    documents
	keys    keyRing
	page    []byte            // the metadata
	comers  *ratelimit.Limits // registrations and documents of an address
	stem    string            // of the owners of records
}

// New returns a server, and reads its signing key, which it makes where there is none.
func New(ctx context.Context, opts Options) (*Server, error) {
	s := &Server{opts: opts, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)), clients: make(map[string]*client), cross: http.NewCrossOriginProtection(),
		docs: documents{busy: make(chan struct{}, maxFetches)}}
	o := &s.opts
	o.AccessLife, o.GrantLife = cmp.Or(o.AccessLife, 15*time.Minute), cmp.Or(o.GrantLife, 30*24*time.Hour)
	switch {
	case o.Login == nil:
		return nil, errors.New("authserver: Options.Login is missing: the server must know who visits its pages")
	case o.Store == nil:
		return nil, errors.New("authserver: Options.Store is missing")
	case len(o.Keys) == 0:
		return nil, errors.New("authserver: Options.Keys is empty: nothing is kept in clear")
	case len(o.Resources) == 0:
		return nil, errors.New("authserver: Options.Resources is empty: tokens are for a resource")
	case o.AccessLife < time.Minute || o.AccessLife > maxAccessLife || o.GrantLife < o.AccessLife:
		return nil, fmt.Errorf("authserver: AccessLife %v and GrantLife %v: want a minute to %v, and not less", o.AccessLife, o.GrantLife, maxAccessLife)
	}
	if err := s.address(); err != nil {
		return nil, err
	}
	o.Name = cmp.Or(o.Name, s.base.Host)
	for _, r := range o.Resources {
		if canonical, err := oauth.CanonicalResource(r); err != nil || canonical != r {
			return nil, fmt.Errorf("authserver: the resource %q: want the address of an endpoint in its canonical form %q (%w)", r, canonical, cmp.Or(err, errors.ErrUnsupported))
		}
	}
	if o.Default == nil {
		o.Default = o.Scopes
	}
	for _, scope := range slices.Concat(o.Scopes, o.Default) {
		if got := oauth.ParseScopes(scope); len(got) != 1 || got[0] != scope || scope == offline || !slices.Contains(o.Scopes, scope) {
			return nil, fmt.Errorf("authserver: the scope %q is not in Scopes, has characters that scopes do not have, or is %s", scope, offline)
		}
	}
	box, err := seal.New("troupe authserver key", "troupe authserver "+o.Issuer, o.Keys...)
	if err == nil {
		s.vault, err = vault.New(o.Store, o.Keys)
	}
	if err != nil {
		return nil, fmt.Errorf("authserver: Options.Keys: %w", err)
	}
	s.cookies = visit.Cookies{HTTPS: s.base.Scheme == "https", Seal: box}
	s.comers = ratelimit.New(1.0/60, 60)
	if o.HTTP == nil {
		guard, err := netguard.New(nil)
		if err != nil {
			return nil, err
		}
		o.HTTP = guard.Client(&netguard.ClientOptions{Timeout: 5 * time.Second, MaxBody: maxDocument})
	}
	for _, c := range o.Clients {
		known, err := c.check()
		if err != nil {
			return nil, fmt.Errorf("authserver: the client %.40q: %w", c.ID, err)
		}
		if s.clients[c.ID] != nil {
			return nil, fmt.Errorf("authserver: two clients have the id %q", c.ID)
		}
		s.clients[c.ID] = known
	}
	if err := o.Login.join(s); err != nil {
		return nil, fmt.Errorf("authserver: Options.Login: %w", err)
	}
	if s.page, err = jsonx.Marshal(s.metadata()); err != nil {
		return nil, err
	}
	if _, err := s.signer(ctx); err != nil {
		return nil, fmt.Errorf("authserver: the signing key: %w", err)
	}
	return s, nil
}

// maxAccessLife bounds how long access tokens are good: their grant cannot end them everywhere.
const maxAccessLife = 24 * time.Hour

// offline is a scope that clients ask for to get a refresh token. They get one anyway.
const offline = "offline_access"

// address checks the issuer.
func (s *Server) address() error {
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
	s.stem = "as-" + visit.Digest(s.opts.Issuer)[:16] + "-"
	_ = s.cross.AddTrustedOrigin(s.base.Scheme + "://" + s.base.Host) // behind a proxy that changes Host
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

func (s *Server) metadata() *document {
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
func (s *Server) at(name string) string   { return s.opts.Issuer + "/" + name }
func (s *Server) path(name string) string { return s.base.Path + "/" + name }

// wellKnown are the paths of the metadata.
func (s *Server) wellKnown() []string {
	const server, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	if s.base.Path == "" {
		return []string{server, openID}
	}
	return []string{server + s.base.Path, openID + s.base.Path, s.base.Path + openID}
}

// Mount adds the server to a mux: the metadata, and each endpoint and page below the issuer.
func (s *Server) Mount(mux *http.ServeMux) {
	for _, path := range s.wellKnown() {
		mux.Handle(path, s)
	}
	for _, name := range []string{"authorize", "token", "register", "revoke", "jwks", "login", "login/"} {
		mux.Handle(s.path(name), s)
	}
}

// TokenIssuer is the server as a resource server in the same process knows it: without HTTP, and so
// that tokens end with their grant.
func (s *Server) TokenIssuer() auth.Issuer { return auth.Issuer{URL: s.opts.Issuer, Local: s} }

// Visitor returns who is logged in at the browser that sends a request, as the tokens of that
// person have it: it is a login for package connect, whose page is Issuer + "/login".
func (s *Server) Visitor(r *http.Request) (issuer, subject string, ok bool) {
	who, ok := s.visitor(r)
	return s.opts.Issuer, who.Subject, ok
}

// maxQuery bounds the query of an address, in bytes.
const maxQuery = 8 << 10

// ServeHTTP implements [http.Handler]. The path must not be stripped.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if oauth.OnLoopback(s.opts.Issuer) && !oauth.OnLoopback("http://"+r.Host) { // DNS rebinding
		http.Error(w, "this server is for this machine only", http.StatusMisdirectedRequest)
		return
	}
	if slices.Contains(s.wellKnown(), r.URL.Path) {
		s.publish(w, r, s.page)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, s.base.Path+"/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	name, more, _ := strings.Cut(rest, "/")
	switch {
	case rest == "jwks":
		set, err := s.KeySet(r.Context())
		if err != nil {
			s.trouble(w, err)
			return
		}
		s.publish(w, r, set)
	case rest == "token" || rest == "revoke" || rest == "register":
		s.endpoint(w, r, rest)
	case rest == "authorize" || name == "login":
		s.visited(w, r, name, more)
	default:
		http.NotFound(w, r)
	}
}

// publish serves a document that any page may read.
func (s *Server) publish(w http.ResponseWriter, r *http.Request, page []byte) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodOptions: // of a browser, for the header of the version
		h.Set("Access-Control-Allow-Methods", "GET")
		h.Set("Access-Control-Allow-Headers", "mcp-protocol-version")
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet, http.MethodHead:
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "public, max-age=60")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(page) // an error means that the client has gone
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// endpoint serves what clients call.
func (s *Server) endpoint(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*") // no cookie counts here
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch r.Method {
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "POST")
		h.Set("Access-Control-Allow-Headers", "authorization, content-type, mcp-protocol-version")
		w.WriteHeader(http.StatusNoContent)
		return
	case http.MethodPost:
	default:
		h.Set("Allow", "POST, OPTIONS")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, visit.MaxForm)
	var err error
	switch name {
	case "register":
		err = s.register(w, r)
	case "token":
		err = s.token(w, r)
	case "revoke":
		err = s.revoke(w, r)
	}
	var refused *refusal
	switch {
	case err == nil:
	case errors.As(err, &refused):
		s.log.Info("a client is refused", "endpoint", name, "code", refused.Code, "reason", refused.Description, "address", s.addressOf(r))
		if refused.status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", `Basic realm="troupe"`)
		}
		s.answer(w, cmp.Or(refused.status, http.StatusBadRequest), refused)
	default:
		s.log.Error("an endpoint has failed", "endpoint", name, "error", err)
		s.answer(w, http.StatusServiceUnavailable, &refusal{Code: "temporarily_unavailable", Description: "something went wrong here: try again in a while"})
	}
}

// refusal is an error that a client is told (RFC 6749, section 5.2).
type refusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	status      int    // zero is 400
}

func (e *refusal) Error() string { return e.Code + ": " + e.Description }

func refuse(code, why string) error { return &refusal{Code: code, Description: why} }

// answer writes JSON.
func (s *Server) answer(w http.ResponseWriter, status int, value any) {
	raw, err := jsonx.Marshal(value)
	if err != nil {
		s.log.Error("an answer cannot be written", "error", err)
		status, raw = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // an error means that the client has gone
}

// trouble answers where something went wrong here.
func (s *Server) trouble(w http.ResponseWriter, err error) {
	s.log.Error("a request has failed", "error", err)
	http.Error(w, "something went wrong here: try again in a while", http.StatusServiceUnavailable)
}

// addressOf returns where a request comes from.
func (s *Server) addressOf(r *http.Request) string {
	if s.opts.Address != nil {
		return s.opts.Address(r)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// form reads a form, in which nothing comes twice but what may.
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
