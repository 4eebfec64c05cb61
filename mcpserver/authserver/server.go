package authserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/internal/vault"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
)

// Server is an authorization server. Its methods may be used from any goroutine, and nothing has to
// be closed.
type Server struct {
	*site
	keys          *keyRing
	grants        *grants
	clients       *clients
	tokens        *tokens
	authorization *authorization
	metadata      []byte
}

// New returns a server, and reads its signing key, which it makes where there is none.
func New(ctx context.Context, opts Options) (*Server, error) {
	at := &site{opts: opts, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))}
	if err := at.check(); err != nil {
		return nil, err
	}
	box, err := seal.New("troupe authserver key", "troupe authserver "+opts.Issuer, opts.Keys...)
	if err != nil {
		return nil, fmt.Errorf("authserver: Options.Keys: %w", err)
	}
	kept, err := vault.New(opts.Store, opts.Keys)
	if err != nil {
		return nil, fmt.Errorf("authserver: Options.Keys: %w", err)
	}
	records := &records{store: opts.Store, box: box, stem: "as-" + visit.Digest(opts.Issuer)[:16] + "-"}
	pages := &pages{site: at, cookies: visit.Cookies{HTTPS: at.base.Scheme == "https", Seal: box}, cross: http.NewCrossOriginProtection()}
	_ = pages.cross.AddTrustedOrigin(at.base.Scheme + "://" + at.base.Host) // behind a proxy that changes Host
	s := &Server{site: at, keys: newKeyRing(at, kept), grants: &grants{records, at.opts.GrantLife}}
	if s.clients, err = newClients(at, records); err != nil {
		return nil, err
	}
	s.tokens = &tokens{site: at, keys: s.keys, clients: s.clients, grants: s.grants}
	s.authorization = &authorization{pages: pages, clients: s.clients, grants: s.grants}
	if err := at.opts.Login.join(pages, records); err != nil {
		return nil, fmt.Errorf("authserver: Options.Login: %w", err)
	}
	if s.metadata, err = jsonx.Marshal(at.metadata()); err != nil {
		return nil, err
	}
	if _, err := s.keys.signer(ctx); err != nil {
		return nil, fmt.Errorf("authserver: the signing key: %w", err)
	}
	return s, nil
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

// KeySet returns the public keys, as a JSON Web Key Set. It is for a resource server in this
// process.
func (s *Server) KeySet(ctx context.Context) ([]byte, error) { return s.keys.public(ctx) }

// Active reports whether the grant of an access token has not ended, and its person may still use
// it. It is for a resource server in this process.
func (s *Server) Active(ctx context.Context, subject, grantID string) (bool, error) {
	h, ok := handleOf(subject, grantID)
	if !ok {
		return false, nil
	}
	g, err := s.grants.latest(ctx, h)
	if err != nil || g == nil {
		return false, err
	}
	return s.mayUse(ctx, g)
}

// maxQuery bounds the query of an address, in bytes.
const maxQuery = 8 << 10

// ServeHTTP implements [http.Handler]. The path must not be stripped.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	webserver.BoundBody(w, r)
	if oauth.OnLoopback(s.opts.Issuer) && !oauth.OnLoopback("http://"+r.Host) { // DNS rebinding
		http.Error(w, "this server is for this machine only", http.StatusMisdirectedRequest)
		return
	}
	if slices.Contains(s.wellKnown(), r.URL.Path) {
		publish(w, r, s.metadata)
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
		set, err := s.keys.public(r.Context())
		if err != nil {
			s.trouble(w, err)
			return
		}
		publish(w, r, set)
	case rest == "token" || rest == "revoke" || rest == "register":
		s.endpoint(w, r, rest)
	case rest == "authorize" || name == "login":
		s.authorization.visited(w, r, name, more)
	default:
		http.NotFound(w, r)
	}
}

// publish serves a document that any page may read.
func publish(w http.ResponseWriter, r *http.Request, page []byte) {
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
		err = s.clients.register(w, r)
	case "token":
		err = s.tokens.token(w, r)
	case "revoke":
		err = s.tokens.revoke(w, r)
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

// trouble answers where something went wrong here.
func (s *Server) trouble(w http.ResponseWriter, err error) {
	s.log.Error("a request has failed", "error", err)
	http.Error(w, "something went wrong here: try again in a while", http.StatusServiceUnavailable)
}
