package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpserver"
)

// claims are those of an access token (RFC 9068), and the answer about one (RFC 7662).
type claims struct {
	Active     bool        `json:"active"` // of an answer only
	Issuer     string      `json:"iss"`
	Subject    string      `json:"sub"`
	Audience   jsonx.Value `json:"aud"`
	Expiry     *float64    `json:"exp"`
	NotBefore  *float64    `json:"nbf"`
	Issued     *float64    `json:"iat"`
	ClientID   string      `json:"client_id"`
	Authorized string      `json:"azp"`
	AppID      string      `json:"appid"`
	Scope      jsonx.Value `json:"scope"`
	Scp        jsonx.Value `json:"scp"`
	Session    string      `json:"sid"`
	Confirm    struct {
		Thumbprint  string `json:"jkt"`
		Certificate string `json:"x5t#S256"`
	} `json:"cnf"`

	// What other tokens of an issuer have.
	Kind       string      `json:"typ"`
	Use        string      `json:"token_use"`
	Nonce      jsonx.Value `json:"nonce"`
	AccessHash jsonx.Value `json:"at_hash"`
	CodeHash   jsonx.Value `json:"c_hash"`
	Events     jsonx.Value `json:"events"`
}

// checked is a token that was looked at.
type checked struct {
	principal *mcpserver.Principal
	key       string    // the thumbprint of the key that it is bound to; "" for none
	until     time.Time // it need not be looked at again
	first     time.Time // it was seen

	// Of a JWT: the keys of its issuer that have verified it, and those of now. They are others when the
	// issuer's were fetched anew; one of them may be withdrawn.
	set  *oauth.KeySet
	keys func(context.Context) *oauth.KeySet
}

// holds reports whether a token was verified by the keys that its issuer has now.
func (c *checked) holds(ctx context.Context) bool { return c.keys == nil || c.keys(ctx) == c.set }

// leeway is how far clocks may differ.
const leeway = 30 * time.Second

// Bounds on what a principal is made of, in bytes.
const (
	maxSubject = 255     // OpenID Connect Core, section 2
	maxSeen    = 8192    // tokens that are known at once
	maxProofs  = 100_000 // the same of proofs
)

// checkType refuses JWTs that are no access tokens, although the issuer has signed them: an ID
// token or a logout token gives no access.
func (c *claims) checkType(typ string) error {
	switch {
	case typ == "at+jwt":
		return nil
	case typ != "jwt":
		return fmt.Errorf("its type is %.40q, want at+jwt or JWT", typ)
	case strings.EqualFold(c.Kind, "Bearer") || c.Use == "access": // Keycloak, Cognito
		return nil
	case c.Kind != "" || c.Use != "" || c.Nonce != nil || c.AccessHash != nil || c.CodeHash != nil || c.Events != nil:
		return errors.New("it is another kind of token of the issuer, such as an ID token")
	}
	return nil
}

// principal checks the claims of a token whose origin is known.
func (s *ResourceServer) principal(from *issuer, c *claims, hash [sha256.Size]byte, now time.Time) (*checked, error) {
	first := now
	if old, ok := s.seen.Get(hash); ok {
		first = old.value.first
	}
	var end time.Time
	if c.Expiry != nil {
		end = s.endOf(c, first, now)
	}
	switch {
	case c.Issuer != "" && c.Issuer != from.URL:
		return nil, errors.New("it is of another issuer")
	case !s.isFor(texts(c.Audience)): // AUTH-50
		return nil, errors.New("its audience is not this resource")
	case c.Expiry == nil || *c.Expiry <= 0 || math.IsNaN(*c.Expiry):
		return nil, errors.New("it has no expiry")
	case !now.Before(end):
		return nil, errors.New("it has expired")
	case c.NotBefore != nil && now.Add(leeway).Before(timeOf(*c.NotBefore)):
		return nil, errors.New("it is not good yet")
	case c.Confirm.Certificate != "":
		return nil, errors.New("it is bound to a certificate, which this server does not check")
	case c.Subject == "" && !s.opts.ClientSubjects:
		return nil, errors.New("it names no subject (claim sub); Options.ClientSubjects, or --auth-client-subjects, takes its client for the subject")
	}
	client := c.ClientID
	for _, other := range []string{c.Authorized, c.AppID} {
		if client == "" {
			client = other
		}
	}
	p := &mcpserver.Principal{Issuer: from.URL, Subject: c.Subject, ClientID: client, Expiry: end}
	if p.Subject == "" {
		p.Subject = client
	}
	if p.Subject == "" || len(p.Subject) > maxSubject || len(client) > 2048 {
		return nil, errors.New("it names neither a subject nor a client, or one that is too long")
	}
	kind := "user"
	if p.Machine = p.Subject == client; p.Machine { // RFC 9068, section 2.2
		kind = "client"
	}
	p.ID = fmt.Sprintf("%s %d:%s%d:%s", kind, len(p.Issuer), p.Issuer, len(p.Subject), p.Subject) // SECA-7
	for _, text := range append(texts(c.Scope), texts(c.Scp)...) {
		for _, scope := range oauth.ParseScopes(text) {
			if !slices.Contains(p.Scopes, scope) {
				p.Scopes = append(p.Scopes, scope)
			}
		}
	}
	return &checked{principal: p, key: c.Confirm.Thumbprint, first: first}, nil
}

// isFor reports whether a token with this audience is for the resource.
func (s *ResourceServer) isFor(audience []string) bool {
	return slices.ContainsFunc(audience, func(a string) bool { return a == s.opts.Resource || slices.Contains(s.opts.Audiences, a) && a != "" })
}

// texts returns the strings of a claim that is one or a list of them; of anything else none.
func texts(raw jsonx.Value) []string {
	if len(raw) == 0 {
		return nil
	}
	if text, ok := jsonx.Text([]byte(raw)); ok {
		return []string{text}
	}
	var all []string
	if jsonx.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// defaultMaxLife is Options.MaxLife: a token that was stolen is not good for years.
const defaultMaxLife = 24 * time.Hour

// endOf returns when a token is refused that has an expiry: then, or earlier by MaxLife.
func (s *ResourceServer) endOf(c *claims, first, now time.Time) time.Time {
	end := timeOf(*c.Expiry)
	if s.opts.MaxLife > 0 {
		issued := first
		if c.Issued != nil {
			issued = timeOf(*c.Issued)
		}
		if issued.After(now) { // of a clock that is ahead
			issued = now
		}
		if latest := issued.Add(s.opts.MaxLife); latest.Before(end) {
			end = latest
		}
	}
	return end.Add(leeway)
}

// timeOf returns the time of a number of seconds since 1970, up to the year 9999.
func timeOf(seconds float64) time.Time {
	return time.Unix(int64(min(max(seconds, 0), 253402300799)), 0)
}

var errInactive = errors.New("the issuer says that the token is not active")

// askedFor is how long an answer about a token is heeded.
const askedFor = 30 * time.Second

// ask asks the issuer about a token.
func (s *ResourceServer) ask(ctx context.Context, from *issuer, token string, hash [sha256.Size]byte, now time.Time) (*checked, error) {
	var c claims
	if _, known := s.inactive.get(hash, now); known {
		return nil, because(s.denied.badToken, errInactive)
	}
	if err := from.introspect(ctx, oauth.NewSecret(token), &c); err != nil {
		return nil, because(s.denied.unavailable, err)
	}
	if !c.Active {
		s.inactive.put(hash, struct{}{}, now.Add(askedFor))
		return nil, because(s.denied.badToken, errInactive)
	}
	got, err := s.principal(from, &c, hash, now)
	if err != nil {
		return nil, because(s.denied.badToken, err)
	}
	got.forAWhile(now)
	return got, nil
}

// forAWhile makes an answer one that is heeded for that long only.
func (c *checked) forAWhile(now time.Time) {
	c.until = now.Add(askedFor)
	if end := c.principal.Expiry; end.Before(c.until) {
		c.until = end
	}
}
