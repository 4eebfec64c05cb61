package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/login"
)

// Authorizer authorizes a program at its servers over HTTP. Package auth has one.
type Authorizer interface {
	// For returns what authorizes the requests to a server, nil for a server that is not to
	// be authorized at. The definition must not be changed.
	For(s *Server) (Auth, error)
}

// Auth authorizes the requests to one server. Its methods may be called from any goroutine;
// they may wait, but not longer than ctx.
type Auth interface {
	// Authorize sets the headers of a request that prove who sends it.
	Authorize(ctx context.Context, req *http.Request) error
	// Denied is told that the server has refused a request with 401 or 403, and so has not
	// carried it out. Header is that of the answer. Again says that Authorize has something
	// else now: the request is sent once more. The error says
	// why not; one with the method Wait(resume func(error)) (leave func()) says that the
	// request can be sent later, when resume is called with nil: its call waits for that. Where
	// a person logs in with another process, it has Elsewhere and Await, too: see [auth.LoginError].
	Denied(ctx context.Context, req *http.Request, status int, header http.Header) (again bool, err error)
}

// OAuth is what is configured of the authorization at a server. The zero value finds
// everything out.
type OAuth struct {
	// Off leaves the server alone: a refusal is an error.
	Off bool
	// Issuer is the authorization server to use, of those that the server names. Empty is the
	// first. Where no person sees it, by a Grant, what the program proves itself by goes to no
	// authorization server that only the server names: to Issuer, to the one of MetadataURL, to one
	// at the origin of the server's URL, or to one that it was shown before. AnyIssuer is for programs
	// that trust the server to name one.
	Issuer    string
	AnyIssuer bool
	// ClientID and ClientSecret were given by the authorization server, and the secret goes to
	// Issuer only. Empty registers the program.
	ClientID, ClientSecret string
	// MetadataURL is where the authorization server is described, in place of where the server
	// and its issuer say.
	MetadataURL string
	// ClientMetadataURL is an https address at which the description of the client is published:
	// its ID at servers that read it. Empty is that of the [Authorizer].
	ClientMetadataURL string
	// RedirectURI is where browsers are sent at the end: https, or an address of this machine,
	// on which the program listens then; without a port it takes any. Empty is that of the
	// Authorizer.
	RedirectURI string
	// AuthMethod is how the client proves who it is: none, client_secret_basic,
	// client_secret_post or private_key_jwt. Empty is what the authorization server takes.
	AuthMethod string
	// Scopes are asked for in place of those that the server wants. Nil is what it wants.
	Scopes []string
	// Grant is how to get a token. Empty asks a person.
	Grant OAuthGrant
	// PrivateKey proves who the program is, in place of a secret (private_key_jwt): PEM, or a
	// JSON Web Key. KeyID is its id at the authorization server; it may be empty.
	PrivateKey, KeyID string
	// Assertion returns what [GrantAssertion] and [GrantEnterprise] show, each time anew.
	Assertion func(context.Context) (string, error)
	// IdentityProvider is that of GrantEnterprise.
	IdentityProvider IdentityProvider
	// Resource is the parameter "resource", in place of what the server publishes. NoResource
	// leaves it out, for authorization servers that reject it.
	Resource   string
	NoResource bool
}

// String shows the configuration without its secrets, as every way to print or log it does.
func (o OAuth) String() string {
	return fmt.Sprintf("OAuth{Off:%t Issuer:%q MetadataURL:%q ClientID:%q ClientSecret:%s Scopes:%q Grant:%q PrivateKey:%s IdentityProvider:%s}",
		o.Off, o.Issuer, o.MetadataURL, o.ClientID, hide(o.ClientSecret), o.Scopes, o.Grant, hide(o.PrivateKey), o.IdentityProvider)
}

// Format writes String for every verb.
func (o OAuth) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// LogValue is String.
func (o OAuth) LogValue() slog.Value { return slog.StringValue(o.String()) }

// hide shows whether there is a secret.
func hide(secret string) string {
	if secret == "" {
		return `""`
	}
	return "***"
}

// OAuthGrant is a way to get a token.
type OAuthGrant string

// The grants.
const (
	// GrantPerson: a person logs in and agrees.
	GrantPerson OAuthGrant = ""
	// GrantClient: the program acts for itself (client credentials).
	GrantClient OAuthGrant = "client_credentials"
	// GrantAssertion: the platform that the program runs on vouches for it, by a JWT (workload
	// identity).
	GrantAssertion OAuthGrant = "jwt-bearer"
	// GrantEnterprise: the company's identity provider vouches for a person who has signed on
	// there, by an ID token (enterprise-managed authorization).
	GrantEnterprise OAuthGrant = "enterprise"
)

// IdentityProvider is where a person has signed on. Its client is the program as it is
// registered there.
type IdentityProvider struct {
	Issuer, ClientID, ClientSecret string
}

// String shows the identity provider without the secret, as every way to print or log it does.
func (p IdentityProvider) String() string {
	return fmt.Sprintf("IdentityProvider{Issuer:%q ClientID:%q ClientSecret:%s}", p.Issuer, p.ClientID, hide(p.ClientSecret))
}

// Format writes String for every verb.
func (p IdentityProvider) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// LogValue is String.
func (p IdentityProvider) LogValue() slog.Value { return slog.StringValue(p.String()) }

// authorizes has a call that was refused wait until it is authorized. The server has not
// carried it out, so that it is sent again whatever it does.
func (c toolCalls) authorizes(t *asks.Call, a call.Answer) (call.Step, bool) {
	wait, ok := errors.AsType[login.Waits](a.Err)
	elsewhere, isElsewhere := login.ElsewhereOf(a.Err)
	if !ok || isElsewhere && t.Listed || !t.Authorizations.More() {
		return call.Step{}, false
	}
	await := wait.Wait
	who := t.Human
	if b, ok := who.(*boxed); ok {
		who = b.Human
	}
	if human, shows := who.(LoginHuman); isElsewhere && shows {
		await = func(resume func(error)) func() { return human.AwaitLogin(&Login{c.Client, elsewhere}, resume) }
	}
	return t.WaitFor(await, func(err error) error {
		if err = errors.Join(a.Err, err); !t.Retried() { // of an earlier round it is not known
			err = &notSentError{err}
		}
		return err
	}), true
}

// connectAuthorized makes the connection, once it is authorized if that is what it lacks.
func (c dialing) connectAuthorized(ctx context.Context, err error) error {
	return login.Until(ctx, err, func() error {
		c.conn.Retry() // it may not have been told yet
		return c.conn.Connect(ctx)
	})
}

// Login is a login that is waited for, and that a person makes with another program.
type Login struct {
	client *Client
	wait   login.Elsewhere
}

// Wait has resume called once, with nil when what was refused can be tried again, else with why
// it cannot. It may be called before Wait returns. Leave gives the wait up, which has no bound.
func (l *Login) Wait(resume func(error)) (leave func()) { return l.wait.Await(resume) }

// Ask returns what is shown of it, of the kind AskLogin.
func (l *Login) Ask() (*Ask, error) {
	resource, scopes, _ := l.wait.Elsewhere()
	a := &Ask{Kind: AskLogin, Message: "A person has to log in at the server.", Login: &LoginView{Resource: resource, Scopes: scopes}}
	if scopes != nil {
		a.Message = "A person has to log in at the server once more: it wants more than was agreed to."
	}
	if command := l.client.opts.LoginCommand; command != nil {
		a.Login.Command, a.Login.Where = command(l.client.server.Name, scopes)
	}
	return a, l.client.questions.describe(&asks.Origin{}, a)
}

// loginOf returns the login that a server lacks, as its errors say; nil without one.
func (c dialing) loginOf(errs ...error) *Login {
	for _, err := range errs {
		if e, ok := login.ElsewhereOf(err); ok {
			return &Login{c.Client, e}
		}
	}
	return nil
}
