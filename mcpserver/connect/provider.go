package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/internal/weburl"
	"github.com/troupe-dev/troupe/store"
)

// Provider is a service whose accounts can be connected: [GitHub], [Google], [OAuth] or
// [APIKey] makes it.
type Provider struct {
	name   string
	config OAuthConfig
	key    *APIKeyConfig
}

// OAuthConfig describes a provider with OAuth 2 or OpenID Connect: the client that is
// registered there, with the redirect address Options.Base + "/callback/" + its name.
type OAuthConfig struct {
	// Title is what people call the provider. Empty is its name.
	Title string
	// ClientID and ClientSecret are of the client; a public client has no secret.
	ClientID, ClientSecret string
	// PostSecret sends the secret in the body of requests, in place of the header.
	PostSecret bool
	// Issuer is that of the authorization server. Without AuthorizeURL and TokenURL its metadata
	// say where everything is. Answers of another issuer are refused.
	Issuer string
	// AuthorizeURL, TokenURL and RevokeURL (RFC 7009, may be empty) are for providers without
	// metadata. They must support PKCE with S256, or ignore it.
	AuthorizeURL, TokenURL, RevokeURL string
	// Scopes are always asked for, beside those of [Connector.Client].
	Scopes []string
	// Implies are the scopes that another one includes: an account with the one has the others,
	// though the provider does not list them.
	Implies map[string][]string
	// Params are further parameters of the authorization address, such as prompt.
	Params map[string]string
	// API are the origins to which the token is sent, such as "https://api.example.com", or
	// "https://*.example.com". Required.
	API []string
	// AccountURL returns a JSON object about the account, and AccountField the member that people
	// know it by. Without them pages show no name of the account.
	AccountURL, AccountField string

	commas bool // between the scopes that were granted
	revoke func(ctx context.Context, hc *http.Client, c *OAuthConfig, token string) error
}

// APIKeyConfig describes a provider whose key a person pastes into a form on our page.
type APIKeyConfig struct {
	// Title is what people call the provider. Empty is its name.
	Title string
	// Help says where to find the key.
	Help string
	// API are the origins to which the key is sent, as in [OAuthConfig]. Required.
	API []string
	// Header has the key, behind Prefix. Empty are "Authorization" and, for that, "Bearer ".
	Header, Prefix string
	// AccountURL and AccountField are as in [OAuthConfig]. A key with which AccountURL does not
	// answer is refused.
	AccountURL, AccountField string
}

// OAuth returns a provider with OAuth 2 or OpenID Connect. The name is a part of addresses.
func OAuth(name string, config OAuthConfig) Provider { return Provider{name: name, config: config} }

// APIKey returns a provider with keys that people paste.
func APIKey(name string, config APIKeyConfig) Provider { return Provider{name: name, key: &config} }

// GitHub returns the provider "github", for an OAuth app or a GitHub app.
func GitHub(clientID, clientSecret string) Provider {
	return OAuth("github", OAuthConfig{
		Title: "GitHub", ClientID: clientID, ClientSecret: clientSecret, PostSecret: true,
		Issuer: "https://github.com/login/oauth", AuthorizeURL: "https://github.com/login/oauth/authorize", TokenURL: "https://github.com/login/oauth/access_token",
		API: []string{"https://api.github.com", "https://uploads.github.com"}, AccountURL: "https://api.github.com/user", AccountField: "login",
		Implies: implied, commas: true, revoke: revokeGitHub,
	})
}

// implied are the scopes that GitHub leaves out of its answer beside those that include them.
var implied = map[string][]string{
	"repo":             {"repo:status", "repo_deployment", "public_repo", "repo:invite", "security_events"},
	"admin:repo_hook":  {"write:repo_hook", "read:repo_hook"},
	"write:repo_hook":  {"read:repo_hook"},
	"admin:org":        {"write:org", "read:org"},
	"write:org":        {"read:org"},
	"admin:public_key": {"write:public_key", "read:public_key"},
	"write:public_key": {"read:public_key"},
	"admin:gpg_key":    {"write:gpg_key", "read:gpg_key"},
	"write:gpg_key":    {"read:gpg_key"},
	"user":             {"read:user", "user:email", "user:follow"},
	"project":          {"read:project"},
	"write:packages":   {"read:packages"},
	"write:discussion": {"read:discussion"},
}

// revokeGitHub ends a token: GitHub has no RFC 7009. The user's grant stays, for it is that of
// all who use the app: of the login of a web site, say.
func revokeGitHub(ctx context.Context, hc *http.Client, c *OAuthConfig, token string) error {
	body, err := jsonx.Marshal(map[string]string{"access_token": token})
	if err != nil {
		return err
	}
	at := "https://api.github.com/applications/" + url.PathEscape(c.ClientID) + "/token"
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, at, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.SetBasicAuth(c.ClientID, c.ClientSecret)
	req.Header.Set("Accept", "application/vnd.github+json")
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNoContent, http.StatusNotFound, http.StatusUnprocessableEntity: // or it is none any more
	default:
		return fmt.Errorf("github answers %s", resp.Status)
	}
	return nil
}

// Google returns the provider "google". Scopes are addresses, such as
// "https://www.googleapis.com/auth/drive.readonly".
func Google(clientID, clientSecret string) Provider {
	return OAuth("google", OAuthConfig{
		Title: "Google", ClientID: clientID, ClientSecret: clientSecret, PostSecret: true,
		Issuer: "https://accounts.google.com", AuthorizeURL: "https://accounts.google.com/o/oauth2/v2/auth",
		TokenURL: "https://oauth2.googleapis.com/token", RevokeURL: "https://oauth2.googleapis.com/revoke",
		Scopes: []string{"openid", "email"}, Implies: map[string][]string{
			"https://www.googleapis.com/auth/userinfo.email":   {"email"},
			"https://www.googleapis.com/auth/userinfo.profile": {"profile"},
		},
		Params: map[string]string{"access_type": "offline", "prompt": "consent", "include_granted_scopes": "true"},
		API:    []string{"https://*.googleapis.com"}, AccountURL: "https://openidconnect.googleapis.com/v1/userinfo", AccountField: "email",
	})
}

// provider is one that is in use.
type provider struct {
	OAuthConfig // of a provider with keys: the common fields only
	name, title string
	key         *APIKeyConfig // nil unless it has keys
	http        *http.Client
	loopback    bool
	api         []*url.URL
	found       atomic.Pointer[discovered] // nil without metadata, or before
}

// discovered is what metadata say, or why there are none.
type discovered struct {
	server *oauth.Server
	err    error
	until  time.Time
}

// How long metadata are believed, and how long they are not asked for where there were none: any
// visitor has the login ask for them.
const (
	metadataLife  = time.Hour
	metadataPause = 5 * time.Second
)

// open checks a provider.
func (p Provider) open(hc *http.Client, loopback bool) (*provider, error) {
	o := &provider{OAuthConfig: p.config, name: p.name, key: p.key, http: hc, loopback: loopback}
	if k := p.key; k != nil {
		copied := *k
		o.key = &copied
		o.Title, o.API, o.AccountURL, o.AccountField = k.Title, k.API, k.AccountURL, k.AccountField
		if k.Header == "" {
			o.key.Header, o.key.Prefix = "Authorization", cmp.Or(k.Prefix, "Bearer ")
		}
	}
	o.title = cmp.Or(o.Title, p.name)
	addresses := []string{o.AccountURL, o.RevokeURL}
	switch {
	case store.CheckID("provider", p.name) != nil || strings.ContainsAny(p.name, "/.?#% "):
		return nil, errors.New("its name must fit into an address: letters, digits, - and _")
	case len(o.API) == 0:
		return nil, errors.New("API is empty: the token would go nowhere")
	case o.key != nil:
	case o.ClientID == "":
		return nil, errors.New("ClientID is empty")
	case (o.AuthorizeURL == "") != (o.TokenURL == ""), o.AuthorizeURL == "" && o.Issuer == "":
		return nil, errors.New("it needs AuthorizeURL and TokenURL, or Issuer for both")
	default:
		addresses = append(addresses, o.AuthorizeURL, o.TokenURL, o.Issuer)
	}
	for _, raw := range addresses {
		if raw == "" {
			continue
		}
		if err := o.checkAddress(raw); err != nil {
			return nil, err
		}
	}
	for _, raw := range o.API {
		u, err := url.Parse(raw)
		if err == nil {
			err = o.checkAddress(strings.Replace(raw, "://*.", "://any.", 1))
		}
		if err != nil || u.Path != "" || u.RawQuery != "" || strings.Count(u.Host, "*") > 0 && !strings.HasPrefix(u.Host, "*.") {
			return nil, fmt.Errorf("API: %.200q is no origin: want https://host (%w)", raw, cmp.Or(err, weburl.ErrRefused))
		}
		o.api = append(o.api, u)
	}
	return o, nil
}

// checkAddress permits https, and http on this machine if the pages are there.
func (p *provider) checkAddress(raw string) error {
	if _, err := weburl.Check(raw); err != nil {
		return fmt.Errorf("%.200q: %w", raw, err)
	}
	if !strings.HasPrefix(raw, "https://") && !p.loopback {
		return fmt.Errorf("%.200q: want https", raw)
	}
	return nil
}

// gets reports whether the token goes to an address.
func (p *provider) gets(u *url.URL) bool {
	return slices.ContainsFunc(p.api, func(o *url.URL) bool {
		if o.Scheme != u.Scheme || portOf(o) != portOf(u) {
			return false
		}
		host := strings.ToLower(u.Hostname())
		if suffix, any := strings.CutPrefix(o.Hostname(), "*"); any {
			return strings.HasSuffix(host, suffix)
		}
		return host == strings.ToLower(o.Hostname())
	})
}

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
}

// client returns the OAuth client of the provider.
func (p *provider) client(ctx context.Context) (*oauth.Client, error) {
	s := &oauth.Server{Issuer: p.Issuer, AuthorizationEndpoint: p.AuthorizeURL, TokenEndpoint: p.TokenURL, RevocationEndpoint: p.RevokeURL, PKCEMethods: []string{"S256"}, Loopback: p.loopback}
	if p.AuthorizeURL == "" {
		d := p.found.Load()
		if d == nil || time.Now().After(d.until) {
			server, err := oauth.FetchServer(ctx, p.http, p.Issuer, p.loopback)
			d = &discovered{server, err, time.Now().Add(metadataLife)}
			if err != nil {
				d.until = time.Now().Add(metadataPause)
			}
			if ctx.Err() == nil {
				p.found.Store(d)
			}
		}
		if d.err != nil {
			return nil, fmt.Errorf("asking %s where its endpoints are: %w", p.title, d.err)
		}
		s = d.server
	}
	c := &oauth.Client{Server: s, ID: p.ClientID, Method: oauth.AuthNone, Secret: oauth.NewSecret(p.ClientSecret)}
	switch {
	case p.ClientSecret != "" && p.PostSecret:
		c.Method = oauth.AuthPost
	case p.ClientSecret != "":
		c.Method = oauth.AuthBasic
	}
	return c, nil
}

// granted returns the scopes of a token.
func (p *provider) granted(t *oauth.Token, asked []string) []string {
	switch {
	case t.SameScopes:
		return asked
	case p.commas:
		return strings.FieldsFunc(strings.Join(t.Scopes, ","), func(r rune) bool { return r == ',' })
	}
	return t.Scopes
}

// set adds a token, or a key, to a request.
func (p *provider) set(h http.Header, token string) {
	if p.key != nil {
		h.Set(p.key.Header, p.key.Prefix+token)
		return
	}
	h.Set("Authorization", "Bearer "+token)
}

// errRefusedKey is the error of a key that the provider does not accept.
var errRefusedKey = errors.New("it is not accepted")

// accountName asks the provider whose token it is; "" if it cannot be asked.
func (p *provider) accountName(ctx context.Context, token string) (string, error) {
	if p.AccountURL == "" {
		return "", nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.AccountURL, nil)
	if err != nil {
		return "", err
	}
	p.set(req.Header, token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "troupe")
	resp, err := p.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return "", errRefusedKey
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s answers %s", p.title, resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	if jsonx.Unmarshal(raw, &fields) != nil {
		return "", fmt.Errorf("%s answers with something else than a JSON object", p.title)
	}
	name, _ := jsonx.Text([]byte(fields[cmp.Or(p.AccountField, "name")]))
	return sanitize.Line(name, 100), nil
}
