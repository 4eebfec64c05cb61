// embedded.go: the authorization server in this process, for a team without an identity provider.

package serve

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
)

// embeddedFlags are those of the authorization server.
type embeddedFlags struct {
	embedded bool
	users    string
	login    string // the issuer of a provider
	client   string // there

	retryPublic bool
}

// settle refuses what does not go together.
func (f *embeddedFlags) settle(all *authFlags) error {
	switch {
	case !f.embedded && (f.users != "" || f.login != "" || f.client != "" || f.retryPublic):
		return env.Usagef("--auth-users, --auth-login, --auth-client and --auth-retry-public need --auth-embedded")
	case !f.embedded:
		return nil
	case (f.users == "") == (f.login == ""):
		return env.Usagef("--auth-embedded needs --auth-users FILE, whose users may log in (make it with: troupe serve users add FILE NAME), or --auth-login URL, an OpenID provider at which people log in")
	case (f.login == "") != (f.client == ""):
		return env.Usagef("--auth-login and --auth-client belong together: the OpenID provider, and the id of this server there")
	case all.issuer != "" || all.introspect != "" || len(all.tokens) > 0:
		return env.Usagef("--auth-embedded excludes --auth-issuer, --auth-introspect and --token")
	}
	return nil
}

// embed makes the authorization server; nil if there is none.
func (f *authFlags) embed(ctx context.Context, e *env.Env, o *setup.Opened, web *webServer) (*authserver.Server, error) {
	if !f.embedded {
		return nil, nil
	}
	if f.resource == "" {
		host, _, err := net.SplitHostPort(web.address)
		if err != nil || !loopback(host) {
			return nil, env.Usagef("--auth-embedded: want --auth-resource, the address of this server as clients know it, such as https://mcp.example.com/mcp")
		}
		f.resource = "http://" + web.address + "/mcp"
	}
	u, err := url.Parse(f.resource)
	if err != nil {
		return nil, env.Usagef("--auth-resource: %w", err)
	}
	keys, err := setup.VaultKeys(e)
	if err != nil {
		return nil, err
	}
	scopes := slices.Clone(f.scopes)
	for _, rule := range f.rules {
		for _, scope := range rule.Scopes {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	login := authserver.Users(f.users)
	if f.login != "" {
		login = authserver.OIDC(authserver.OIDCOptions{Issuer: f.login, ClientID: f.client, ClientSecret: f.secret})
	}
	as, err := authserver.New(ctx, authserver.Options{
		Issuer: u.Scheme + "://" + u.Host, Resources: []string{f.resource}, Scopes: scopes, Default: append([]string{}, f.scopes...),
		RetryPublic: f.retryPublic, Login: login, Store: o.Store, Keys: keys, Logger: o.Log, Address: web.addressOf(o.Log),
	})
	if err != nil {
		return nil, env.Usagef("--auth-embedded: %w", err)
	}
	return as, nil
}

// addressOf returns where a request comes from, for limits. A header of a proxy counts only if the
// operator has said that there is one: else its clients could choose their address.
func (w *webServer) addressOf(log *slog.Logger) func(*http.Request) string {
	ignored := sync.OnceFunc(func() {
		log.Warn("requests have X-Forwarded-For, which is not believed: if they come through a proxy of yours, say --behind-proxy, or all its clients have one limit")
	})
	return func(r *http.Request) string {
		if !w.proxied && len(r.Header["X-Forwarded-For"]) > 0 {
			ignored()
		}
		return webserver.Address(r, w.proxied)
	}
}
