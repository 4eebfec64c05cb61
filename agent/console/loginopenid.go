package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/seal"
	site "github.com/troupe-dev/troupe/internal/visit"
)

// OIDCOptions describes the OpenID provider at which people log in.
type OIDCOptions struct {
	// Issuer is the provider's, byte by byte as in its metadata.
	Issuer string
	// ClientID and ClientSecret are of a client there, with the redirect address Address +
	// "/login/callback". A public client has no secret.
	ClientID, ClientSecret string
	// PostSecret sends the secret in the body of requests, in place of the header.
	PostSecret bool
	// Scopes are asked for beside openid, such as email, or groups.
	Scopes []string
	// Address is that of the console, such as https://console.example.com.
	Address string
	// Claim is the claim of the ID token, a text or a list, that says what a person may do. Empty means
	// "groups".
	Claim string
	// Roles has what its values allow; the highest one counts. A person without any is not let in. The
	// value "*" is of all who can log in at the provider.
	Roles map[string]Role
	// HTTP contacts the provider. Nil is a client that contacts the host of Issuer and public
	// addresses.
	HTTP *http.Client
}

// OIDC is a login at an OpenID provider, by the authorization code flow with PKCE. Answers are recorded
// with the email address that the provider has verified, or else with the subject. What a person may do
// is as the provider says at the login, for the twelve hours of a session.
func OIDC(o OIDCOptions) Login { return &openID{opts: o} }

type openID struct {
	opts  OIDCOptions
	desk  *Console
	tries *site.Tries
	at    site.OpenID
}

// openIDCookie holds what was begun in a browser.
const openIDCookie = "troupe-console-begun"

func (l *openID) join(c *Console) error {
	o := &l.opts
	at, err := url.Parse(o.Address)
	if err != nil || at.Host == "" || at.Scheme != "https" && !oauth.OnLoopback(o.Address) {
		return fmt.Errorf("OIDCOptions.Address %q: want the address of the console, such as https://console.example.com", o.Address)
	}
	if len(o.Roles) == 0 {
		return errors.New("OIDCOptions.Roles is empty: no person could log in")
	}
	if o.Claim == "" {
		o.Claim = "groups"
	}
	keys, err := seal.New("troupe console", "login", seal.NewKey())
	if err != nil {
		return err
	}
	provider := &site.Provider{Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret, PostSecret: o.PostSecret, HTTP: o.HTTP}
	if err := provider.Open(oauth.OnLoopback(o.Address)); err != nil {
		return fmt.Errorf("OIDCOptions: %w", err)
	}
	l.desk, l.tries = c, site.NewTries()
	l.at = site.OpenID{Client: provider.Client, HTTP: provider.HTTP, Cookies: &site.Cookies{HTTPS: at.Scheme == "https", Seal: keys},
		Cookie: openIDCookie, Callback: strings.TrimSuffix(o.Address, "/") + "/login/callback"}
	return nil
}

func (l *openID) role(who *person) Role { return who.Role }

func (l *openID) begin(w http.ResponseWriter, r *http.Request, back string) error {
	if l.tries.Exceeded(l.desk.addressOf(r), "") {
		w.Header().Set("Retry-After", "60")
		l.desk.say(w, r, http.StatusTooManyRequests, "Too many attempts. Wait a minute, and try again.")
		return nil
	}
	return l.at.Begin(w, r, back, append([]string{"openid"}, l.opts.Scopes...), nil)
}

func (l *openID) finish(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		l.desk.say(w, r, http.StatusNotFound, noPage)
		return nil
	}
	a, err := l.at.Finish(w, r)
	if err != nil {
		return err
	}
	who, err := l.personOf(a)
	if err != nil {
		return err
	}
	if who.Role == Stranger {
		l.desk.log.Warn("a person without a role is not let in at the console", "name", who.Name, "address", l.desk.addressOf(r))
		l.desk.say(w, r, http.StatusForbidden, "You are logged in as "+who.Name+", and may not see this console.")
		return nil
	}
	l.desk.enter(w, r, who, a.Back)
	return nil
}

// personOf reads who has logged in, and what the claim allows.
func (l *openID) personOf(a *site.Arrival) (person, error) {
	var claims map[string]jsonx.Value
	if err := jsonx.Unmarshal(a.Claims, &claims); err != nil {
		return person{}, errors.New("the ID token is malformed")
	}
	who := person{Name: a.Subject, Role: l.opts.Roles["*"]}
	if mail, ok := jsonx.Text([]byte(claims["email"])); ok && string(claims["email_verified"]) == "true" && mail != "" && len(mail) <= 255 {
		who.Name = mail
	}
	if strings.ContainsFunc(who.Name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return person{}, errors.New("the name in the ID token has characters that cannot be shown")
	}
	var values []string
	if one, ok := jsonx.Text([]byte(claims[l.opts.Claim])); ok {
		values = []string{one}
	} else if raw := claims[l.opts.Claim]; len(raw) > 0 && jsonx.Unmarshal([]byte(raw), &values) != nil {
		return person{}, fmt.Errorf("the claim %q of the ID token is neither a text nor a list of texts", l.opts.Claim)
	}
	for _, value := range values {
		if value != "*" {
			who.Role = max(who.Role, l.opts.Roles[value])
		}
	}
	return who, nil
}
