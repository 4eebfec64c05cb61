package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcpclient"
)

// withoutPerson gets a token by a grant that asks no person. Nothing of it is tried again, and
// no other grant takes its place (AUTH-80, AUTH-81).
func (l *login) withoutPerson(ctx context.Context, server *oauth.Server) (*tokens, error) {
	if l.server.OAuth.ClientID == "" {
		return nil, fmt.Errorf("the grant %s needs oauth.clientId: register the program at %s", l.server.OAuth.Grant, server.Issuer)
	}
	if !l.mayShow(server.Issuer) {
		return nil, fmt.Errorf("only the server says that the program is to prove itself to %s: name it in oauth.issuer if the secret of the client %.100q may go there",
			sanitize.Line(server.Issuer, 200), l.server.OAuth.ClientID)
	}
	var err error
	if l.client, err = l.configured(server, l.place.Issuer); err != nil {
		return nil, err
	}
	if err := l.bind(l.client); err != nil {
		return nil, err
	}
	scopes := l.scopesFor(server)
	grant, err := l.grant(ctx, scopes)
	if err != nil {
		return nil, err
	}
	got, err := l.client.Token(ctx, l.http, grant, "")
	if err != nil {
		return nil, err
	}
	return l.keep(ctx, got, scopes)
}

// mayShow reports whether what the program proves itself by may go to an issuer that no person sees.
func (l *login) mayShow(issuer string) bool {
	if l.server.OAuth.AnyIssuer || l.server.OAuth.MetadataURL != "" || issuer == l.server.OAuth.Issuer || issuer == l.place.Issuer {
		return true
	}
	of, err := url.Parse(issuer)
	at, bad := url.Parse(l.server.URL)
	return err == nil && bad == nil && of.Scheme == at.Scheme && of.Host == at.Host
}

// grant is what the program has to show.
func (l *login) grant(ctx context.Context, scopes []string) (*oauth.Grant, error) {
	if l.server.OAuth.Grant == mcpclient.GrantClient {
		return oauth.ClientGrant(scopes), nil
	}
	if l.server.OAuth.Assertion == nil {
		return nil, fmt.Errorf("the grant %s needs OAuth.Assertion", l.server.OAuth.Grant)
	}
	text, err := l.server.OAuth.Assertion(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the assertion: %w", err)
	}
	switch assertion := oauth.NewSecret(text); l.server.OAuth.Grant {
	case mcpclient.GrantAssertion:
		return oauth.AssertionGrant(assertion, scopes), nil
	case mcpclient.GrantEnterprise:
		return l.enterprise(ctx, assertion, scopes)
	}
	return nil, fmt.Errorf("unknown grant %.40q: want %s, %s or %s", l.server.OAuth.Grant, mcpclient.GrantClient, mcpclient.GrantAssertion, mcpclient.GrantEnterprise)
}

// enterprise exchanges a person's ID token at the identity provider for an assertion that is
// good at the authorization server (ID-JAG).
func (l *login) enterprise(ctx context.Context, identity oauth.Secret, scopes []string) (*oauth.Grant, error) {
	idp := l.server.OAuth.IdentityProvider
	if idp.Issuer == "" {
		return nil, errors.New("the grant enterprise needs OAuth.IdentityProvider")
	}
	s, err := oauth.FetchServer(ctx, l.http, idp.Issuer, oauth.OnLoopback(l.server.URL))
	if err != nil {
		return nil, fmt.Errorf("looking for the identity provider %s: %w", idp.Issuer, err)
	}
	client := &oauth.Client{Server: s, ID: idp.ClientID, Method: oauth.AuthNone, Secret: oauth.NewSecret(idp.ClientSecret), Resource: l.resource.URI}
	if idp.ClientSecret != "" {
		client.Method = methodOf(s, true)
	}
	got, err := client.Token(ctx, l.http, oauth.ExchangeGrant(&oauth.Exchange{
		Requested: oauth.TypeIDJAG, Subject: identity, SubjectType: oauth.TypeIDToken, Audience: l.client.Server.Issuer, Scopes: scopes,
	}), "")
	if err != nil {
		return nil, fmt.Errorf("at the identity provider: %w", err)
	}
	return oauth.AssertionGrant(got.Access, scopes), nil
}
