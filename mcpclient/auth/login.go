package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// grantCode is the grant of a person's authorization.
const grantCode = "authorization_code"

// login is one authorization by a person, from the metadata of the server to the tokens.
type login struct {
	*Credential
	wish
	before *tokens // nil for none

	place    place
	resource *oauth.Resource
	client   *oauth.Client
}

// run carries the login out. Its error names addresses that may have secrets of the environment in them.
func (l *login) run(ctx context.Context) (*tokens, error) {
	t, err := l.authorize(ctx)
	return t, l.server.RedactError(err)
}

func (l *login) authorize(ctx context.Context) (*tokens, error) {
	if t, err := l.load(ctx); err != nil || t != nil && (l.before == nil || t.Access != l.before.Access) {
		return t, err // another process was faster
	}
	if _, err := l.a.vault.Get(ctx, kindPlace, l.placeKey(), &l.place); err != nil {
		return nil, err
	}
	server, err := l.discover(ctx)
	if err != nil {
		return nil, err
	}
	if l.server.OAuth.Grant != mcpclient.GrantPerson {
		return l.withoutPerson(ctx, server)
	}
	known, err := l.known(ctx, server.Issuer)
	if err != nil {
		return nil, err
	}
	back, err := l.listen(ctx, known.Redirect)
	if err != nil {
		return nil, err
	}
	defer back.close()
	if l.client, err = l.identify(ctx, server, back.uri, known); err != nil {
		return nil, err
	}
	if err := l.bind(l.client); err != nil {
		return nil, err
	}
	scopes := l.scopesFor(server)
	got, err := l.ask(ctx, back, scopes)
	if err != nil {
		return nil, l.refused(ctx, err)
	}
	return l.keep(ctx, got, scopes)
}

// refused returns err. If it says that the server does not know the client any more, the next
// login registers another.
func (l *login) refused(ctx context.Context, err error) error {
	switch oauth.CodeOf(err) {
	case oauth.CodeInvalidClient, oauth.CodeUnauthorizedClient:
		if bad := l.a.vault.DeleteSealed(ctx, kindRedirect, l.redirectKey(l.client.Server.Issuer)); bad != nil && !errors.Is(bad, store.ErrNotFound) {
			return errors.Join(err, bad)
		}
	}
	return err
}

// bind limits the client's tokens to the resource, and binds them to a new key where the server
// wants that (RFC 9449).
func (l *login) bind(client *oauth.Client) (err error) {
	client.Resource = l.resourceOf(l.resource.URI)
	if l.resource.DPoP || l.dpop {
		client.DPoP, err = oauth.NewDPoPKey()
	}
	return err
}

// discover finds the authorization server (AUTH-20 to AUTH-28).
func (l *login) discover(ctx context.Context) (*oauth.Server, error) {
	r, err := oauth.FetchResource(ctx, l.http, l.server.URL, l.metadata)
	switch {
	case errors.Is(err, oauth.ErrNoMetadata) && l.server.OAuth.MetadataURL != "":
		r = &oauth.Resource{URI: l.endpoint}
	case errors.Is(err, oauth.ErrNoMetadata) && l.unasked:
		return nil, ErrNotWanted
	case errors.Is(err, oauth.ErrNoMetadata) && !l.place.Metadata && l.metadata == "":
		return l.discoverLegacy(ctx)
	case err != nil:
		return nil, fmt.Errorf("looking for the authorization server of %s: %w", l.shown(), err)
	}
	if l.resource = r; err == nil && !l.place.Metadata { // noted now: the login may fail
		if err := l.note(ctx, func(p *place) { p.Metadata = true }); err != nil {
			return nil, err
		}
	}
	issuer := l.server.OAuth.Issuer
	if l.server.OAuth.MetadataURL == "" {
		if issuer, err = l.choose(r.Servers); err != nil {
			return nil, err
		}
	}
	s, err := l.fetchServer(ctx, issuer, l.server.OAuth.MetadataURL)
	if err != nil {
		return nil, fmt.Errorf("looking for the metadata of the authorization server %s: %w", sanitize.Line(cmp.Or(issuer, l.server.OAuth.MetadataURL), 200), err)
	}
	return s, nil
}

// discoverLegacy takes the server for one of 2025-03-26: it is its own authorization server.
func (l *login) discoverLegacy(ctx context.Context) (*oauth.Server, error) {
	s, err := oauth.FetchLegacyServer(ctx, l.http, l.server.URL, "2025-03-26")
	if err != nil {
		return nil, fmt.Errorf("looking for the authorization server of %s: %w", l.shown(), err)
	}
	l.resource = &oauth.Resource{} // that revision has no resource indicators
	return s, nil
}

// choose returns the issuer to use of those that the server names.
func (l *login) choose(issuers []string) (string, error) {
	switch {
	case len(issuers) == 0:
		return "", fmt.Errorf("the metadata of %s names no authorization server", l.shown())
	case l.server.OAuth.Issuer == "":
		return issuers[0], nil
	case !slices.Contains(issuers, l.server.OAuth.Issuer):
		return "", fmt.Errorf("the configured issuer %s is none of those that %s names: %s", l.server.OAuth.Issuer, l.shown(), sanitize.Line(strings.Join(issuers, ", "), 400))
	}
	return l.server.OAuth.Issuer, nil
}

// known returns the registration at an issuer to use again; its ID is empty if there is none.
func (l *login) known(ctx context.Context, issuer string) (r registration, err error) {
	var last lastClient
	version, err := l.a.vault.Get(ctx, kindRedirect, l.redirectKey(issuer), &last)
	if err == nil && version != 0 {
		_, err = l.a.vault.Get(ctx, kindClient, keyOf(l.issuerKey(issuer), last.ID), &r)
	}
	if !r.Expires.IsZero() && !time.Now().Before(r.Expires) {
		r = registration{}
	}
	return r, err
}

// redirectKey is by where browsers are sent: registrations for another place are of no use.
func (l *login) redirectKey(issuer string) string {
	return keyOf(l.issuerKey(issuer), cmp.Or(l.server.OAuth.RedirectURI, l.a.opts.RedirectURI, "loopback"))
}

func (l *login) issuerKey(issuer string) string { return issuerKey(issuer, l.server.OAuth.MetadataURL) }

// identify returns the client at an authorization server: configured, by the address of its
// description, known from before, or registered now (AUTH-30).
func (l *login) identify(ctx context.Context, s *oauth.Server, redirectURI string, known registration) (*oauth.Client, error) {
	switch {
	case l.server.OAuth.ClientID != "":
		return l.configured(s, l.place.Issuer)
	case s.ClientIDDocument && l.clientURL() != "":
		return &oauth.Client{Server: s, ID: l.clientURL(), Method: oauth.AuthNone}, nil
	}
	if known.ID == "" || known.Redirect != redirectURI || known.Device != hasDevice(s) {
		if s.RegistrationEndpoint == "" {
			return nil, fmt.Errorf("the authorization server %s registers no clients: register this program there, with the redirect address %s, and configure oauth.clientId", s.Issuer, redirectURI)
		}
		got, err := l.register(ctx, s, redirectURI)
		if err != nil {
			return nil, err
		}
		known = registration{ID: got.ID, Secret: got.Secret.Reveal(), Method: got.Method, Expires: got.SecretExpires, Redirect: redirectURI, Device: hasDevice(s)}
		if _, err := update(ctx, l.a.vault, kindClient, keyOf(l.issuerKey(s.Issuer), known.ID), func(kept *registration) { *kept = known }); err != nil {
			return nil, err
		}
		if _, err := update(ctx, l.a.vault, kindRedirect, l.redirectKey(s.Issuer), func(last *lastClient) { last.ID = known.ID }); err != nil {
			return nil, err
		}
	}
	return &oauth.Client{Server: s, ID: known.ID, Method: known.Method, Secret: oauth.NewSecret(known.Secret)}, nil
}

// configured returns the client that the configuration names. Its secret or key is shown to its
// issuer only: the configured one, else the first that was used here (AUTH-34).
func (c *Credential) configured(s *oauth.Server, known string) (*oauth.Client, error) {
	client := &oauth.Client{Server: s, ID: c.server.OAuth.ClientID, Method: oauth.AuthNone, Secret: oauth.NewSecret(c.server.OAuth.ClientSecret)}
	if c.server.OAuth.ClientSecret == "" && c.server.OAuth.PrivateKey == "" {
		return client, nil
	}
	if issuer := cmp.Or(c.server.OAuth.Issuer, known); issuer != "" && issuer != s.Issuer {
		return nil, fmt.Errorf("the client %.100q is registered at %s, and the server names %s: configure oauth.issuer if it is the same client", c.server.OAuth.ClientID, issuer, s.Issuer)
	}
	if c.server.OAuth.PrivateKey != "" {
		key, err := oauth.ParseSigningKey(oauth.NewSecret(c.server.OAuth.PrivateKey), c.server.OAuth.KeyID)
		client.Key, client.Method = key, oauth.AuthKey
		return client, err
	}
	client.Method = cmp.Or(oauth.AuthMethod(c.server.OAuth.AuthMethod), methodOf(s, true))
	return client, nil
}

// methodOf chooses how to authenticate of what the server lists; nothing is basic (RFC 8414).
func methodOf(s *oauth.Server, secret bool) oauth.AuthMethod {
	order := []oauth.AuthMethod{oauth.AuthNone, oauth.AuthBasic, oauth.AuthPost}
	if secret {
		order = order[1:]
	}
	for _, m := range order {
		if slices.Contains(s.AuthMethods, string(m)) {
			return m
		}
	}
	if secret {
		return oauth.AuthBasic
	}
	return oauth.AuthNone
}

// register registers the client, for device codes too where the server has them.
func (l *login) register(ctx context.Context, s *oauth.Server, redirectURI string) (*oauth.Registered, error) {
	m := &oauth.Metadata{
		Name: l.a.opts.ClientName, RedirectURIs: []string{redirectURI}, ApplicationType: "native",
		GrantTypes: []string{grantCode, "refresh_token"}, ResponseTypes: []string{"code"}, AuthMethod: cmp.Or(oauth.AuthMethod(l.server.OAuth.AuthMethod), methodOf(s, false)),
	}
	if hasDevice(s) {
		m.GrantTypes = append(m.GrantTypes, oauth.TypeDeviceGrant)
	}
	got, err := oauth.Register(ctx, l.http, s, m, oauth.Secret{})
	if hasDevice(s) && oauth.CodeOf(err) == oauth.CodeInvalidClientMetadata { // it gives that grant to other clients
		m.GrantTypes = m.GrantTypes[:2]
		return oauth.Register(ctx, l.http, s, m, oauth.Secret{})
	}
	return got, err
}

// offline is the scope that brings a refresh token.
const offline = "offline_access"

// scopesFor returns the scopes to ask for (AUTH-41, AUTH-44, AUTH-61).
func (l *login) scopesFor(s *oauth.Server) []string {
	scopes := l.server.OAuth.Scopes
	if scopes == nil {
		if scopes = l.wish.scopes; scopes == nil {
			scopes = l.resource.Scopes
		}
	}
	scopes = slices.Clone(scopes)
	for _, had := range l.had {
		if !slices.Contains(scopes, had) {
			scopes = append(scopes, had)
		}
	}
	if slices.Contains(s.Scopes, offline) && !slices.Contains(scopes, offline) {
		scopes = append(scopes, offline)
	}
	return scopes
}

// ask has a person authorize the client, and returns the tokens.
func (l *login) ask(ctx context.Context, back *callback, scopes []string) (*oauth.Token, error) {
	var extra map[string]string
	if slices.Contains(scopes, offline) {
		extra = map[string]string{"prompt": "consent"} // else OpenID Connect has the scope ignored (Core, section 11)
	}
	a, err := l.client.Begin(back.uri, scopes, extra)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &Request{
		Server: l.shown(), Name: l.resource.Name, Resource: sanitize.Line(l.server.Redact(cmp.Or(l.resource.URI, l.endpoint)), 400), Issuer: sanitize.Line(l.client.Server.Issuer, 400),
		ClientID: sanitize.Line(l.client.ID, 200), Scopes: scopes, Why: l.why, URL: a.URL,
		redirects: back.redirects, devices: make(chan chan deviceAnswer), over: ctx.Done(),
	}
	r.New = slices.DeleteFunc(slices.Clone(scopes), func(s string) bool {
		return l.before != nil && (slices.Contains(l.before.Scopes, s) || s == offline && l.before.Refresh != "")
	})
	asked := make(chan error, 1)
	back.start("a question about a login", func() {
		_, err := actors.Guard(func() (struct{}, error) { return struct{}{}, l.a.opts.Authorize(ctx, r) })
		asked <- err
	})
	var device *oauth.Device
	var poll <-chan time.Time // nil without a device code
	for {
		select {
		case one := <-r.redirects:
			code, err := a.Finish(one.address)
			one.answer <- err
			switch {
			case errors.Is(err, oauth.ErrForeign):
			case err != nil:
				return nil, err
			default:
				return l.client.Token(ctx, l.http, oauth.CodeGrant(a, code), "")
			}
		case begun := <-r.devices:
			d, answer := l.startDevice(ctx, scopes)
			if begun <- answer; d != nil {
				device, poll = d, time.After(d.Interval)
			}
		case <-poll:
			got, again, err := l.poll(ctx, device)
			if again == 0 {
				return got, err
			}
			poll = time.After(again)
		case err := <-asked:
			if err != nil {
				return nil, err
			}
			asked = nil // agreed: the answer follows
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// keep saves the tokens, and where they are for.
func (l *login) keep(ctx context.Context, got *oauth.Token, asked []string) (*tokens, error) {
	t := &tokens{of: credential{Issuer: l.client.Server.Issuer, Resource: l.client.Resource, ClientID: l.client.ID, Grant: l.grantName(), From: l.server.OAuth.MetadataURL}}
	t.take(got, asked)
	t.Asked = without(asked, t.Scopes)
	if l.client.DPoP != nil {
		key, err := l.client.DPoP.Export()
		if err != nil {
			return nil, err
		}
		t.Key, t.dpop = key.Reveal(), l.client.DPoP
	}
	var err error
	if t.version, err = update(ctx, l.a.vault, kindToken, t.of.key(l.a.opts.Profile), func(kept *tokens) { *kept = *t }); err != nil {
		return nil, err
	}
	if err := l.note(ctx, func(p *place) {
		if p.credential, p.Shown = t.of, ""; l.shown() != l.endpoint {
			p.Shown = l.shown()
		}
	}); err != nil {
		return nil, err
	}
	return t, nil
}

// clientOf returns the client of kept tokens, for their renewal.
func (c *Credential) clientOf(ctx context.Context, of *credential) (*oauth.Client, error) {
	s, err := c.fetchServer(ctx, of.Issuer, of.From)
	if errors.Is(err, oauth.ErrNoMetadata) && of.Resource == "" {
		s, err = oauth.FetchLegacyServer(ctx, c.http, c.server.URL, "2025-03-26")
	}
	if err != nil {
		return nil, err
	}
	client := &oauth.Client{Server: s, ID: of.ClientID, Method: oauth.AuthNone}
	if c.server.OAuth.ClientID == of.ClientID {
		if client, err = c.configured(s, of.Issuer); err != nil {
			return nil, err
		}
	} else if of.ClientID != c.clientURL() {
		if err := c.registered(ctx, client, of.From); err != nil {
			return nil, err
		}
	}
	client.Resource = of.Resource
	return client, nil
}

// registered completes a client that was registered.
func (c *Credential) registered(ctx context.Context, client *oauth.Client, from string) error {
	var r registration
	version, err := c.a.vault.Get(ctx, kindClient, keyOf(issuerKey(client.Server.Issuer, from), client.ID), &r)
	if err == nil && version != 0 {
		client.Method, client.Secret = r.Method, oauth.NewSecret(r.Secret)
	}
	return err
}
