package visit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
)

// OpenID is a login at an OpenID provider, from the way there to who comes back. What is under way
// is in a sealed cookie, so that an answer counts in the browser that has asked only.
type OpenID struct {
	Client   func(context.Context) (*oauth.Client, error) // at the provider
	HTTP     *http.Client
	Cookies  *Cookies
	Cookie   string // its name
	Callback string // where the provider sends browsers back to
}

// begun is the value of the cookie.
type begun struct {
	State    string    `json:"state"`
	Verifier string    `json:"verifier"`
	Nonce    string    `json:"nonce"`
	Back     string    `json:"back"`
	Until    time.Time `json:"until"`
}

// loginLife bounds the time that a person has at the provider.
const loginLife = 10 * time.Minute

// providerTime bounds a wait for the provider, while a browser waits for its answer.
const providerTime = 30 * time.Second

// Begin sends a browser to the provider. It changes nothing but a cookie.
func (o *OpenID) Begin(w http.ResponseWriter, r *http.Request, back string, scopes []string, params map[string]string) error {
	client, err := o.Client(r.Context())
	if err != nil {
		return err
	}
	b := begun{Nonce: Random(), Back: back, Until: time.Now().Add(loginLife)}
	all := map[string]string{"nonce": b.Nonce}
	for name, value := range params {
		all[name] = value
	}
	a, err := client.Begin(o.Callback, scopes, all)
	if err != nil {
		return err
	}
	state, verifier := a.Secrets()
	b.State, b.Verifier = state.Reveal(), verifier.Reveal()
	if err := o.Cookies.Write(w, o.Cookie, &b, loginLife); err != nil {
		return err
	}
	w.Header().Set("Location", a.URL) // as it is: it was checked
	w.WriteHeader(http.StatusFound)
	return nil
}

// Arrival is a person who comes back from the provider.
type Arrival struct {
	Issuer, Subject string
	Back            string       // as it was given to Begin
	Refresh         oauth.Secret // zero if the provider gave none
	Claims          jsonx.Value  // of the ID token
}

// Finish takes the answer of the provider, and ends the login.
func (o *OpenID) Finish(w http.ResponseWriter, r *http.Request) (*Arrival, error) {
	var b begun
	if !o.Cookies.Read(r, o.Cookie, &b) || !time.Now().Before(b.Until) {
		return nil, errors.New("no login was begun in this browser")
	}
	client, err := o.Client(r.Context())
	if err != nil {
		return nil, err
	}
	a := client.Resume(o.Callback, nil, oauth.NewSecret(b.State), oauth.NewSecret(b.Verifier))
	code, err := a.Finish(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), providerTime)
	defer cancel()
	t, err := client.Token(ctx, o.HTTP, oauth.CodeGrant(a, code), "")
	if err != nil {
		return nil, err
	}
	subject, claims, err := subjectOf(t.ID, client.Server.Issuer, client.ID, b.Nonce)
	if err != nil {
		return nil, err
	}
	o.Cookies.Set(w, o.Cookie, "", -time.Second)
	return &Arrival{client.Server.Issuer, subject, b.Back, t.Refresh, claims}, nil
}

// subjectOf reads an ID token that came from the token endpoint itself, by TLS: its signature
// says no more than that (OpenID Connect Core section 3.1.3.7).
func subjectOf(token oauth.Secret, issuer, client, nonce string) (subject string, all jsonx.Value, err error) {
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		return "", nil, errors.New("the provider gave no ID token")
	}
	head, err1 := base64.RawURLEncoding.DecodeString(parts[0])
	raw, err2 := base64.RawURLEncoding.DecodeString(parts[1])
	var header struct {
		Algorithm string `json:"alg"`
	}
	switch {
	case err1 != nil, err2 != nil, jsonx.Unmarshal(head, &header) != nil:
		return "", nil, errors.New("the ID token is malformed")
	case parts[2] == "", strings.EqualFold(header.Algorithm, "none"): // section 2: not without asking for it
		return "", nil, errors.New("the ID token is not signed")
	}
	var claims struct {
		Issuer   string      `json:"iss"`
		Subject  string      `json:"sub"`
		Audience jsonx.Value `json:"aud"`
		Party    string      `json:"azp"`
		Expires  float64     `json:"exp"`
		Nonce    string      `json:"nonce"`
	}
	if jsonx.Unmarshal(raw, &claims) != nil {
		return "", nil, errors.New("the ID token is malformed")
	}
	var audience []string
	if one, ok := jsonx.Text([]byte(claims.Audience)); ok {
		audience = []string{one}
	} else if jsonx.Unmarshal([]byte(claims.Audience), &audience) != nil {
		return "", nil, errors.New("the ID token is malformed")
	}
	switch {
	case claims.Issuer != issuer:
		return "", nil, fmt.Errorf("the ID token: %w", oauth.ErrIssuer)
	case !slices.Contains(audience, client), len(audience) > 1 && claims.Party != client:
		return "", nil, errors.New("the ID token is for another client")
	case time.Unix(int64(claims.Expires), 0).Before(time.Now().Add(-time.Minute)):
		return "", nil, errors.New("the ID token has expired")
	case nonce == "" || claims.Nonce != nonce:
		return "", nil, errors.New("the ID token answers another login")
	case claims.Subject == "" || len(claims.Subject) > 255:
		return "", nil, errors.New("the ID token has no subject")
	}
	return claims.Subject, raw, nil
}

// Provider is a client at an OpenID provider, whose endpoints are found by the provider's metadata.
type Provider struct {
	Issuer                 string
	ClientID, ClientSecret string
	PostSecret             bool         // the secret is in the body of requests
	HTTP                   *http.Client // nil is replaced by Open

	found atomic.Pointer[discovered] // nil before
}

// discovered is the client at the provider, by its metadata.
type discovered struct {
	client *oauth.Client
	until  time.Time
}

const metadataLife = time.Hour

// Open checks the provider. Without a client for HTTP it makes one that contacts the host of the issuer and
// public addresses, with loopback also this machine.
func (p *Provider) Open(loopback bool) error {
	if p.ClientID == "" {
		return errors.New("ClientID is empty")
	}
	if _, err := oauth.ServerAddresses(p.Issuer, loopback); err != nil {
		return fmt.Errorf("the Issuer: %w", err)
	}
	if p.HTTP != nil {
		return nil
	}
	u, err := url.Parse(p.Issuer)
	if err != nil {
		return err
	}
	guard, err := netguard.New(&netguard.Options{Allow: []string{u.Host}, Loopback: loopback})
	if err != nil {
		return err
	}
	p.HTTP = guard.Client(nil)
	return nil
}

// Client returns the client at the provider.
func (p *Provider) Client(ctx context.Context) (*oauth.Client, error) {
	if d := p.found.Load(); d != nil && time.Now().Before(d.until) {
		return d.client, nil
	}
	ctx, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	server, err := oauth.FetchServer(ctx, p.HTTP, p.Issuer, oauth.OnLoopback(p.Issuer))
	if err != nil {
		return nil, fmt.Errorf("asking the provider where its endpoints are: %w", err)
	}
	c := &oauth.Client{Server: server, ID: p.ClientID, Method: oauth.AuthNone, Secret: oauth.NewSecret(p.ClientSecret)}
	switch {
	case p.ClientSecret != "" && p.PostSecret:
		c.Method = oauth.AuthPost
	case p.ClientSecret != "":
		c.Method = oauth.AuthBasic
	}
	p.found.Store(&discovered{c, time.Now().Add(metadataLife)})
	return c, nil
}
