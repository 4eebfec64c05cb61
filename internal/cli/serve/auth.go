// auth.go: the senders that the server accepts over HTTP: those with a token of --token, or with
// one that an authorization server has issued, which may be this program (embedded.go).

package serve

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/bearer"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
)

// authFlags are the flags that say which senders the server accepts over HTTP.
type authFlags struct {
	tokens     []string
	issuer     string
	resource   string
	scopes     []string
	introspect string
	tools      []string
	maxLife    time.Duration // of a token; 0 is the default
	subjects   bool          // of tokens may be missing
	embeddedFlags

	// What settle makes of them.
	named  *bearer.Named
	rules  []mcpserver.ScopeRule // of tools
	secret string                // of the client introspect
}

// secretVariable has the secret of --auth-introspect or --auth-client, which no command line shows.
const secretVariable = "TROUPE_AUTH_SECRET"

// settle fills in what the configuration says, and reads the tokens.
func (f *authFlags) settle(c *config.Auth, overHTTP bool) (err error) {
	further := len(f.scopes) > 0 || f.introspect != "" || len(f.tools) > 0 || f.maxLife != 0 || f.subjects
	if f.maxLife < 0 {
		return env.Usagef("--auth-max-life %v: want a time above zero", f.maxLife)
	}
	if len(f.tokens) > 0 && f.issuer != "" {
		return env.Usagef("--token and --auth-issuer exclude each other")
	}
	f.secret = os.Getenv(secretVariable)
	if err := f.parseTools(); err != nil {
		return err
	}
	if c.Type == "oauth" && len(f.tokens) == 0 {
		f.fill(c)
	}
	if err := f.embeddedFlags.settle(f); err != nil || f.embedded {
		return err
	}
	if f.issuer == "" && f.resource == "" && further {
		return env.Usagef("--auth-scopes, --auth-tool, --auth-introspect, --auth-max-life and --auth-client-subjects need --auth-issuer and --auth-resource, or --auth-embedded")
	}
	if (f.issuer == "") != (f.resource == "") {
		return env.Usagef("--auth-issuer and --auth-resource belong together: who issues the tokens, and the address of this server that they are for, such as https://mcp.example.com/mcp")
	}
	if !overHTTP || f.issuer != "" {
		return nil
	}
	if len(f.tokens) == 0 {
		f.tokens = []string{c.Token.Reveal()}
	}
	if f.named, err = bearer.ParseNamed(f.tokens...); err != nil {
		return env.Usagef("the token of --token, $TROUPE_TOKEN or serve.auth.token: %w", err)
	}
	if f.named.Empty() && c.Type == "bearer" {
		return env.Usagef("serve.auth.type is bearer, and the token is empty: set the variable of serve.auth.token, or $TROUPE_TOKEN")
	}
	return nil
}

// parseTools reads the rules of --auth-tool.
func (f *authFlags) parseTools() error {
	for _, rule := range f.tools {
		pattern, scopes, ok := strings.Cut(rule, "=")
		if !ok || pattern == "" || scopes == "" {
			return env.Usagef("--auth-tool %q: want PATTERN=SCOPE,SCOPE, such as files__*=files:write", rule)
		}
		f.rules = append(f.rules, mcpserver.ScopeRule{Name: pattern, Scopes: strings.Split(scopes, ",")})
	}
	return nil
}

// fill takes from the configuration what no flag says.
func (f *authFlags) fill(c *config.Auth) {
	f.resource, f.maxLife = cmp.Or(f.resource, c.Resource), cmp.Or(f.maxLife, c.MaxLife)
	if f.embedded = f.embedded || f.issuer == "" && (c.Users != "" || c.Login.Issuer != ""); f.embedded {
		if f.login == "" && f.users == "" {
			f.users, f.login, f.client = c.Users, c.Login.Issuer, c.Login.ClientID
			f.secret = cmp.Or(f.secret, c.Login.ClientSecret.Reveal())
		}
		f.retryPublic = f.retryPublic || c.RetryPublic != nil && *c.RetryPublic
	} else if f.issuer = cmp.Or(f.issuer, c.Issuer); f.issuer == c.Issuer { // what is said of it is for no other
		f.subjects = f.subjects || c.ClientSubjects != nil && *c.ClientSubjects
		if f.introspect == "" || f.introspect == c.ClientID {
			f.introspect, f.secret = c.ClientID, cmp.Or(f.secret, c.ClientSecret.Reveal())
		}
	}
	if f.scopes == nil {
		f.scopes = c.Scopes
	}
	if f.rules == nil {
		for _, pattern := range slices.Sorted(maps.Keys(c.Tools)) {
			f.rules = append(f.rules, mcpserver.ScopeRule{Name: pattern, Scopes: c.Tools[pattern]})
		}
	}
}

// open reports whether all requests are let in.
func (f *authFlags) open() bool { return !f.embedded && f.issuer == "" && f.named.Empty() }

// apply sets which senders the server accepts, and returns the handler of the metadata; nil for
// none. As is the authorization server in this process; nil for none.
func (f *authFlags) apply(o *mcpserver.HTTPOptions, log *slog.Logger, as *authserver.Server) (http.Handler, error) {
	switch {
	case f.issuer != "", as != nil:
	case !f.named.Empty():
		o.Authenticate = f.authenticate
		return nil, nil
	default:
		return nil, nil
	}
	issuer := auth.Issuer{URL: f.issuer}
	if as != nil {
		issuer = as.TokenIssuer()
	}
	if f.introspect != "" {
		issuer.Introspect = &auth.Introspect{ClientID: f.introspect, ClientSecret: f.secret}
	}
	rs, err := auth.New(auth.Options{Resource: f.resource, Issuers: []auth.Issuer{issuer}, Scopes: auth.Scopes{Base: f.scopes}, Name: "Troupe", MaxLife: f.maxLife, ClientSubjects: f.subjects, Logger: log})
	if err != nil {
		return nil, env.Usagef("--auth-issuer and --auth-resource, or serve.auth: %w", err)
	}
	o.ScopeRules = append(o.ScopeRules, f.rules...)
	o.Authenticate, o.Authorize = rs.Authenticate, rs.Authorize
	if u, err := url.Parse(f.resource); err == nil {
		o.AllowedHosts = append(o.AllowedHosts, u.Host)
	}
	return auth.Metadata(rs), nil
}

// authenticate lets in requests that have a token. Those without a name are all one principal.
func (f *authFlags) authenticate(r *http.Request) (*mcpserver.Principal, error) {
	switch name, ok := f.named.Of(r); {
	case !ok:
		return nil, errNoToken
	case name != "":
		return &mcpserver.Principal{ID: "token " + name, Subject: name}, nil
	}
	return &mcpserver.Principal{ID: "token"}, nil
}

var errNoToken error = &mcpserver.AuthError{Status: http.StatusUnauthorized, Challenge: `Bearer realm="troupe"`, Err: errors.New("the token is missing or wrong")}
