package oauth

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Types of tokens of RFC 8693 and of enterprise-managed authorization.
const (
	TypeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	TypeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	TypeSAML2       = "urn:ietf:params:oauth:token-type:saml2"
	TypeIDJAG       = "urn:ietf:params:oauth:token-type:id-jag"
)

// Grant is what a client has to show for a token.
type Grant struct {
	form
	issued string // the type of token that is asked for; "" is an access token
}

// CodeGrant is the code of an authorization.
func CodeGrant(a *Authorization, code Secret) *Grant {
	return &Grant{form: form{"exchanging the code", map[string]string{"grant_type": "authorization_code", "redirect_uri": a.RedirectURI},
		map[string]Secret{"code": code, "code_verifier": a.verifier}}}
}

// RefreshGrant is a refresh token. No scopes means those of the token before.
func RefreshGrant(refresh Secret, scopes []string) *Grant {
	return &Grant{form: form{"refreshing the token", map[string]string{"grant_type": "refresh_token", "scope": strings.Join(scopes, " ")},
		map[string]Secret{"refresh_token": refresh}}}
}

// ClientGrant is the client's own authentication, without a person.
func ClientGrant(scopes []string) *Grant {
	return &Grant{form: form{"asking for a token of the client", map[string]string{"grant_type": "client_credentials", "scope": strings.Join(scopes, " ")}, nil}}
}

// AssertionGrant is a JWT that another party has signed (RFC 7523): of a workload, or an
// ID-JAG.
func AssertionGrant(assertion Secret, scopes []string) *Grant {
	return &Grant{form: form{"showing the assertion", map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "scope": strings.Join(scopes, " ")},
		map[string]Secret{"assertion": assertion}}}
}

// Exchange is a token exchange (RFC 8693). An ID-JAG for an MCP server has the issuer of the
// server's authorization server as its audience.
type Exchange struct {
	Requested   string // such as TypeIDJAG
	Subject     Secret
	SubjectType string // such as TypeIDToken
	Audience    string
	Scopes      []string
}

// ExchangeGrant is a token that is exchanged for another.
func ExchangeGrant(x *Exchange) *Grant {
	return &Grant{issued: x.Requested, form: form{"exchanging the token",
		map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "requested_token_type": x.Requested,
			"subject_token_type": x.SubjectType, "audience": x.Audience, "scope": strings.Join(x.Scopes, " ")},
		map[string]Secret{"subject_token": x.Subject}}}
}

// Token is what a token endpoint gave.
type Token struct {
	Access  Secret
	Type    string // "Bearer" or "DPoP": the scheme with which it is sent; "N_A" for one that is not sent
	Refresh Secret // zero: the server gave none, and the one that was shown stays good
	ID      Secret // an OpenID Connect ID token, not verified
	Scopes  []string
	// SameScopes says that the server gave the scopes that were asked for, and did not list them.
	SameScopes bool
	Expires    time.Time // zero: the server does not say
	Nonce      string    // for the DPoP proof of the next request to this server; "" if it wants none
}

// tokenDocument is the JSON of a token answer.
type tokenDocument struct {
	Error   string      `json:"error"`
	Access  Secret      `json:"access_token"`
	Type    string      `json:"token_type"`
	Issued  string      `json:"issued_token_type"`
	Expires jsonx.Value `json:"expires_in"`
	Refresh Secret      `json:"refresh_token"`
	ID      Secret      `json:"id_token"`
	Scope   *string     `json:"scope"`
}

// Token asks the token endpoint once; twice if the server wants its nonce in a DPoP proof.
// Nonce is that of the token before, or "".
func (c *Client) Token(ctx context.Context, hc *http.Client, g *Grant, nonce string) (*Token, error) {
	f := g.form
	f.values = maps.Clone(f.values)
	f.values["resource"] = c.Resource
	now := time.Now()
	a, sent, err := c.postProof(ctx, hc, &f, nonce)
	if err != nil {
		return nil, err
	}
	if fresh := DPoPNonce(a.header); c.DPoP != nil && a.status != http.StatusOK && fresh != "" && fresh != nonce && CodeOf(refusal(f.op, a, sent)) == CodeUseDPoPNonce {
		nonce = fresh
		if a, sent, err = c.postProof(ctx, hc, &f, nonce); err != nil {
			return nil, err
		}
	}
	if a.status != http.StatusOK {
		return nil, refusal(f.op, a, sent)
	}
	var d tokenDocument
	if err := a.decodeSecret(&d); err != nil {
		return nil, fmt.Errorf("%s: %w", f.op, err)
	}
	if d.Error != "" { // some servers refuse with 200
		return nil, refusal(f.op, a, sent)
	}
	t, err := d.token(now, g.issued, c.DPoP != nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", f.op, ErrMalformed, err)
	}
	if c.DPoP != nil {
		t.Nonce = cmp.Or(DPoPNonce(a.header), nonce)
	}
	return t, nil
}

// postProof asks the token endpoint, with a proof of the key if tokens are bound to one.
func (c *Client) postProof(ctx context.Context, hc *http.Client, f *form, nonce string) (*answer, []Secret, error) {
	header := make(http.Header)
	if c.DPoP != nil {
		proof, err := c.DPoP.Proof(&Proof{Method: http.MethodPost, URL: c.Server.TokenEndpoint, Nonce: nonce})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.op, err)
		}
		header.Set("DPoP", proof)
	}
	return c.post(ctx, hc, c.Server.TokenEndpoint, f, header)
}

// Bounds on tokens.
const (
	maxToken   = 32 << 10             // bytes
	maxSeconds = 10 * 365 * 24 * 3600 // of ten years
)

// token checks the answer. No error has a part of it, but names.
func (d *tokenDocument) token(now time.Time, issued string, bound bool) (*Token, error) {
	for name, s := range map[string]Secret{"access_token": d.Access, "refresh_token": d.Refresh, "id_token": d.ID} {
		if len(s.Reveal()) > maxToken || strings.ContainsFunc(s.Reveal(), func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, fmt.Errorf("%s is too long, or has characters that no header can have", name)
		}
	}
	if d.Access.IsZero() {
		return nil, fmt.Errorf("it has no access_token")
	}
	t := &Token{Access: d.Access, Refresh: d.Refresh, ID: d.ID, SameScopes: d.Scope == nil}
	if d.Scope != nil {
		t.Scopes = ParseScopes(*d.Scope)
	}
	switch kind := strings.ToLower(d.Type); {
	case issued != "" && d.Issued != issued:
		return nil, fmt.Errorf("issued_token_type is not the one that was asked for, %s", issued)
	case kind == "n_a" && issued != "" && issued != TypeAccessToken:
		t.Type = "N_A"
	case kind == "dpop" && bound:
		t.Type = "DPoP"
	case kind == "bearer" && !bound:
		t.Type = "Bearer"
	case kind == "bearer":
		return nil, fmt.Errorf("token_type is Bearer: the server has not bound the token to the key")
	default:
		return nil, fmt.Errorf("token_type is missing, or not one that was asked for: want Bearer, or DPoP with a key")
	}
	life, err := readSeconds(d.Expires)
	if err != nil {
		return nil, fmt.Errorf("expires_in %w", err)
	}
	if life > 0 {
		t.Expires = now.Add(life)
	}
	return t, nil
}

// readSeconds reads how long something lasts: a number of seconds, or one in a string, up to
// ten years. 0 means that the server does not say, as do zero and less: such a token lasts
// until it is refused.
func readSeconds(raw jsonx.Value) (time.Duration, error) {
	text := strings.TrimSpace(string(raw))
	if s, ok := jsonx.Text([]byte(text)); ok {
		text = strings.TrimSpace(s)
	}
	if text == "" || text == "null" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) {
		return 0, fmt.Errorf("is not a number")
	}
	return time.Duration(min(max(n, 0), maxSeconds)) * time.Second, nil
}
