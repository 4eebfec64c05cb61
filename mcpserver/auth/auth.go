package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Options say what is protected, and who issues the tokens. Resource and Issuers are required.
type Options struct {
	// Resource is the address of the MCP endpoint, as clients know it. Tokens must be for it,
	// by their audience.
	Resource string
	// Issuers are the authorization servers whose tokens are good, the preferred one first.
	Issuers []Issuer
	// Scopes are what tokens may be for.
	Scopes Scopes
	// Audiences are further values that a token's audience may have in place of Resource, for
	// authorization servers that cannot be told the resource. No other server may have them.
	Audiences []string
	// MaxLife bounds how long a token is good since it was issued (its claim iat), whatever its expiry says; a
	// token that does not say when that was counts from when it was first seen here. Zero means a day, below zero any time.
	MaxLife time.Duration
	// ClientSubjects accepts tokens and answers about tokens that name no subject (claim sub): the client
	// is the subject then. RFC 9068 wants a subject in each token; without one, that of a person and that
	// of a program may look the same.
	ClientSubjects bool
	// Name is what clients show people of the resource; it may be empty.
	Name string
	// RequireDPoP refuses tokens that are not bound to a key of the client (RFC 9449).
	// Tokens that are bound always need a proof.
	RequireDPoP bool
	// NonceKey is a secret of 32 bytes or more. With it proofs need a nonce of this server, which
	// clients get when they lack it, so that none can be made in advance. Instances have the same
	// one. Empty asks for no nonces.
	NonceKey []byte
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger

	client *http.Client // of tests; nil is a guarded one
}

// Issuer is an authorization server. Without Keys, KeysURL and Introspect its metadata says
// where the keys are.
type Issuer struct {
	// URL is the issuer, exactly as its tokens and its metadata have it.
	URL string
	// Keys is its JSON Web Key Set; nothing is fetched then. KeysURL is where that is.
	Keys    []byte
	KeysURL string
	// Introspect asks the issuer about each token, at most every 30 seconds: for tokens that
	// are no JWT, or to heed their revocation.
	Introspect *Introspect
	// Local is the authorization server, where it is in this process: package authserver. It is
	// asked without HTTP, and at most every 30 seconds whether the grant of a token has ended.
	Local Local
}

// Local is an authorization server in this process.
type Local interface {
	// KeySet returns its JSON Web Key Set.
	KeySet(ctx context.Context) ([]byte, error)
	// Active reports whether the grant that a token names in its claim sid is still good.
	Active(ctx context.Context, subject, grant string) (bool, error)
}

// Introspect says how an issuer is asked about tokens (RFC 7662).
type Introspect struct {
	// URL is the endpoint. Empty is the one in the metadata of the issuer.
	URL string
	// ClientID and ClientSecret are those of this resource server there.
	ClientID, ClientSecret string
}

// Scopes are what tokens may be for.
type Scopes struct {
	// Base are the scopes that each request needs.
	Base []string
	// Supported are the scopes that clients are to ask for at first. Nil means Base: a client
	// is told of more when a request needs them.
	Supported []string
	// Implies says which scopes a scope stands for, beside itself. It may be nested.
	Implies map[string][]string
}

// ResourceServer checks tokens: New makes it.
type ResourceServer struct {
	opts      Options
	resource  *url.URL
	metadata  string // its address
	issuers   map[string]*issuer
	opaque    *issuer             // that is asked about tokens that are no JWT; nil for none
	grantedBy map[string][]string // the scopes that stand for a scope; only where it is not itself alone
	seen      cache[*checked]
	inactive  cache[struct{}] // tokens, as their issuers say
	proofs    cache[struct{}]
	log       *slog.Logger
	denied    struct{ noToken, badToken, badRequest, unavailable, badProof, noNonce mcpserver.AuthError }
}

// New returns a resource server. It contacts no issuer yet.
func New(o Options) (*ResourceServer, error) {
	u, err := checkResource(o.Resource)
	if err != nil {
		return nil, err
	}
	s := &ResourceServer{opts: o, resource: u, issuers: make(map[string]*issuer), log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
	s.metadata = u.Scheme + "://" + u.Host + wellKnown(u)
	s.opts.MaxLife = cmp.Or(o.MaxLife, defaultMaxLife)
	s.seen.Max, s.inactive.Max, s.proofs.Max = maxSeen, maxSeen, maxProofs
	if len(o.Issuers) == 0 {
		return nil, errors.New("auth: there is no issuer: want the address of the authorization server")
	}
	for _, i := range o.Issuers {
		if s.issuers[i.URL] != nil {
			return nil, fmt.Errorf("auth: the issuer %q comes twice", i.URL)
		}
		n, err := newIssuer(i, o.client, s.log)
		if err != nil {
			return nil, fmt.Errorf("auth: the issuer %q: %w", i.URL, err)
		}
		s.issuers[i.URL] = n
		if s.opaque == nil && i.Introspect != nil {
			s.opaque = n
		}
	}
	sc := &o.Scopes
	for name, implied := range sc.Implies {
		if err := checkScopes(append([]string{name}, implied...)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(checkScopes(sc.Base), checkScopes(sc.Supported)); err != nil {
		return nil, err
	}
	if n := len(o.NonceKey); n > 0 && n < 32 {
		return nil, errors.New("auth: the NonceKey is too short: want 32 random bytes")
	}
	s.grantedBy = invert(sc.Implies)
	if s.opts.Scopes.Supported == nil {
		s.opts.Scopes.Supported = sc.Base
	}
	s.refusals()
	return s, nil
}

// checkResource returns the address of a resource. RFC 9728 forbids a fragment, and the
// address of the metadata is simple only without a query.
func checkResource(resource string) (*url.URL, error) {
	canonical, err := oauth.CanonicalResource(resource)
	if err != nil {
		return nil, fmt.Errorf("auth: the resource: %w", err)
	}
	u, err := url.Parse(canonical)
	if err != nil || canonical != resource || u.RawQuery != "" {
		return nil, fmt.Errorf("auth: the resource %q: want the address of the endpoint without query and fragment, with scheme and host in small letters and no slash alone behind the host, such as %s", resource, canonical)
	}
	return u, nil
}

func checkScopes(scopes []string) error {
	for _, scope := range scopes {
		if got := oauth.ParseScopes(scope); len(got) != 1 || got[0] != scope {
			return fmt.Errorf("auth: the scope %q has characters that scopes do not have", scope)
		}
		if scope == "offline_access" { // AUTH-44
			return errors.New("auth: offline_access is a matter of clients and authorization servers: no resource needs it")
		}
	}
	return nil
}

// invert returns the scopes that stand for each scope, itself among them, through any number
// of implications (AUTH-52).
func invert(implies map[string][]string) map[string][]string {
	by := make(map[string][]string)
	for name := range implies {
		reached := []string{name}
		for i := 0; i < len(reached); i++ {
			for _, next := range implies[reached[i]] {
				if !slices.Contains(reached, next) {
					reached = append(reached, next)
				}
			}
		}
		for _, scope := range reached[1:] {
			if by[scope] == nil {
				by[scope] = []string{scope}
			}
			by[scope] = append(by[scope], name)
		}
	}
	return by
}

// refusals makes the errors that are always the same (AUTH-21, AUTH-45).
func (s *ResourceServer) refusals() {
	challenge := func(scheme, code string) string {
		text := fmt.Sprintf(`%s resource_metadata="%s"`, scheme, s.metadata)
		if code != "" {
			text = fmt.Sprintf(`%s error="%s", resource_metadata="%s"`, scheme, code, s.metadata)
		}
		if base := s.opts.Scopes.Base; len(base) > 0 && code != "invalid_request" {
			text += fmt.Sprintf(`, scope="%s"`, strings.Join(base, " "))
		}
		if scheme == "DPoP" {
			text += fmt.Sprintf(`, algs="%s"`, strings.Join(oauth.AcceptedAlgorithms(), " "))
		}
		return text
	}
	scheme := "Bearer"
	if s.opts.RequireDPoP {
		scheme = "DPoP"
	}
	d := &s.denied
	d.noToken = mcpserver.AuthError{Status: http.StatusUnauthorized, Challenge: challenge(scheme, "")}
	d.badToken = mcpserver.AuthError{Status: http.StatusUnauthorized, Challenge: challenge(scheme, "invalid_token")}
	d.badProof = mcpserver.AuthError{Status: http.StatusUnauthorized, Challenge: challenge("DPoP", "invalid_dpop_proof")}
	d.noNonce = mcpserver.AuthError{Status: http.StatusUnauthorized, Challenge: challenge("DPoP", oauth.CodeUseDPoPNonce)}
	d.badRequest = mcpserver.AuthError{Status: http.StatusBadRequest, Challenge: challenge(scheme, "invalid_request")}
	d.unavailable = mcpserver.AuthError{Status: http.StatusServiceUnavailable}
}

// because returns a refusal with its reason for the log.
func because(e mcpserver.AuthError, err error) error {
	e.Err = err
	return &e
}

// maxToken bounds a token, in bytes; a header has room for little more.
const maxToken = 16 << 10

// Authenticate returns the principal of a request, for [mcpserver.HTTPOptions].Authenticate:
// its ID is made of the token's issuer and subject. It may wait for the issuer for seconds.
func (s *ResourceServer) Authenticate(r *http.Request) (*mcpserver.Principal, error) {
	if strings.Contains(r.URL.RawQuery, "access_token") && r.URL.Query().Has("access_token") { // AUTH-03
		return nil, because(s.denied.badRequest, errors.New("the token is in the query, where logs keep it: want the header Authorization"))
	}
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return nil, &s.denied.noToken
	}
	if len(values) > 1 {
		return nil, because(s.denied.badRequest, errors.New("the header Authorization comes twice"))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	bound := strings.EqualFold(scheme, "DPoP")
	switch {
	case !bound && !strings.EqualFold(scheme, "Bearer"):
		return nil, because(s.denied.noToken, errors.New("the header Authorization has another scheme"))
	case token == "" || len(token) > maxToken || strings.ContainsAny(token, " ,\t"):
		return nil, because(s.denied.badToken, errors.New("the token is empty, malformed or too long"))
	}
	now, hash := time.Now(), sha256.Sum256([]byte(token))
	c, ok := s.seen.get(hash, now)
	if !ok || !c.holds(r.Context()) {
		var err error
		if c, err = s.check(r.Context(), token, hash, now); err != nil {
			return nil, err
		}
		s.seen.put(hash, c, c.until)
	}
	if bound || c.key != "" || s.opts.RequireDPoP {
		if err := s.checkProof(r, bound, c.key, hash, now); err != nil {
			return nil, err
		}
	}
	if err := s.Authorize(c.principal, nil); err != nil {
		return nil, err
	}
	return c.principal, nil
}

// Authorize returns an [*mcpserver.AuthError] unless the principal has the base scopes and
// these, for [mcpserver.HTTPOptions].Authorize. A handler may call it, too, and return its
// error.
func (s *ResourceServer) Authorize(p *mcpserver.Principal, scopes []string) error {
	if p == nil {
		return &s.denied.noToken
	}
	base := s.opts.Scopes.Base
	if s.grants(p, base) && s.grants(p, scopes) {
		return nil
	}
	needs := slices.Clone(base)
	for _, scope := range scopes {
		if !slices.Contains(needs, scope) {
			needs = append(needs, scope)
		}
	}
	lacks := slices.DeleteFunc(slices.Clone(needs), func(scope string) bool { return s.grants(p, []string{scope}) })
	scheme := "Bearer"
	if s.opts.RequireDPoP {
		scheme = "DPoP"
	}
	return &mcpserver.AuthError{ // AUTH-60
		Status:    http.StatusForbidden,
		Challenge: fmt.Sprintf(`%s error="insufficient_scope", scope="%s", resource_metadata="%s"`, scheme, strings.Join(needs, " "), s.metadata),
		Err:       fmt.Errorf("the token lacks the scopes %s", strings.Join(lacks, ", ")),
	}
}

// grants reports whether a principal has scopes, by themselves or by others that imply them.
func (s *ResourceServer) grants(p *mcpserver.Principal, scopes []string) bool {
	for _, scope := range scopes {
		if slices.Contains(p.Scopes, scope) {
			continue
		}
		if !slices.ContainsFunc(s.grantedBy[scope], func(by string) bool { return slices.Contains(p.Scopes, by) }) {
			return false
		}
	}
	return true
}

// check verifies a token, or asks its issuer about it.
func (s *ResourceServer) check(ctx context.Context, token string, hash [sha256.Size]byte, now time.Time) (*checked, error) {
	t, err := oauth.ParseJWT(token)
	var c claims
	if err == nil {
		if err = t.Claims(&c); err == nil && s.issuers[c.Issuer] == nil {
			err = errors.New("its issuer is unknown")
		}
	}
	from := s.opaque
	if err == nil {
		from = s.issuers[c.Issuer]
	}
	switch {
	case from == nil || err != nil && looksLikeJWT(token): // of another issuer, or forged: none is asked
		return nil, because(s.denied.badToken, err)
	case from.Introspect != nil:
		return s.ask(ctx, from, token, hash, now)
	}
	keys, err := from.keys(ctx, t.KeyID, t.Algorithm)
	if err != nil {
		return nil, because(s.denied.unavailable, err)
	}
	if err := t.Verify(keys); err != nil {
		return nil, because(s.denied.badToken, err)
	}
	if err := c.checkType(t.Type); err != nil {
		return nil, because(s.denied.badToken, err)
	}
	got, err := s.principal(from, &c, hash, now)
	if err != nil {
		return nil, because(s.denied.badToken, err)
	}
	got.keys = func(ctx context.Context) *oauth.KeySet {
		set, _ := from.keys(ctx, t.KeyID, t.Algorithm) // nil is another set
		return set
	}
	got.set = keys
	if got.until = got.principal.Expiry; from.Local == nil {
		return got, nil
	}
	ok, err := from.Local.Active(ctx, c.Subject, c.Session)
	switch {
	case err != nil:
		return nil, because(s.denied.unavailable, err)
	case !ok:
		return nil, because(s.denied.badToken, errors.New("its grant has ended"))
	}
	got.forAWhile(now)
	return got, nil
}

// looksLikeJWT reports whether a token has a JWT's three parts, the first an object.
func looksLikeJWT(token string) bool {
	return strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") == 2
}
