package authserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/internal/weburl"
)

// Client is a client that is known without registration.
type Client struct {
	// ID is what the client calls itself in requests.
	ID string
	// Secret proves that at the token endpoint. Empty is a public client, such as a program on the
	// machine of its user.
	Secret string
	// Name is what pages call the client. Empty is its ID.
	Name string
	// RedirectURIs are where browsers may be sent with a code: https, http on the machine of the
	// browser (any port then), or a scheme of the client's own.
	RedirectURIs []string
}

// client is one that is known.
type client struct {
	ID         string           `json:"id"`
	Name       string           `json:"name,omitzero"`
	Redirects  []string         `json:"redirects"`
	Method     oauth.AuthMethod `json:"method"`
	SecretHash string           `json:"secret,omitzero"`
	NoRefresh  bool             `json:"noRefresh,omitzero"`
	Created    time.Time        `json:"created,omitzero"`

	kind clientKind
}

// clientKind says who vouches for a client.
type clientKind int

const (
	configured clientKind = iota // the program
	described                    // the host of the document at its id
	registered                   // itself alone
)

// Bounds on what a client says of itself.
const (
	maxDocument  = 5 << 10 // bytes of a document
	maxRedirects = 10
	maxRedirect  = 1000 // bytes
	maxName      = 100
)

func (c *Client) check() (*client, error) {
	known := &client{ID: c.ID, Name: cmp.Or(c.Name, c.ID), Redirects: c.RedirectURIs, Method: oauth.AuthNone, kind: configured}
	if c.Secret != "" {
		known.Method, known.SecretHash = oauth.AuthBasic, visit.Digest(c.Secret)
	}
	if c.ID == "" || len(c.ID) > 256 || strings.HasPrefix(c.ID, "https://") {
		return nil, errors.New("its ID is empty, longer than 256 bytes, or the address of a document")
	}
	return known, checkRedirects(c.RedirectURIs, true)
}

// checkRedirects checks where a client wants browsers sent to. Only a client that the program
// knows may have a scheme of its own (AUTH-05).
func checkRedirects(all []string, known bool) error {
	if len(all) == 0 || len(all) > maxRedirects {
		return fmt.Errorf("it has %d redirect URIs, want 1 to %d", len(all), maxRedirects)
	}
	for _, raw := range all {
		if err := checkRedirect(raw, known); err != nil {
			return fmt.Errorf("the redirect URI %.200q: %w", sanitize.Line(raw, 200), err)
		}
	}
	return nil
}

func checkRedirect(raw string, known bool) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxRedirect || strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' }):
		return errors.New("it is malformed or too long")
	case strings.Contains(raw, "#") || u.User != nil:
		return errors.New("it has a fragment or a user")
	case u.Scheme == "https" || u.Scheme == "http":
		if _, err := weburl.Check(raw); err != nil { // http only on this machine
			return err
		}
		if _, _, ok := loopback(raw); u.Scheme == "http" && !ok {
			return errors.New("want https, or http at 127.0.0.1, [::1] or localhost")
		}
		return nil
	case known && !slices.Contains([]string{"", "javascript", "data", "vbscript", "file", "blob", "about", "view-source"}, u.Scheme):
		return nil
	}
	return errors.New("want https, or http at 127.0.0.1, [::1] or localhost")
}

// loopback takes an address on the machine of the browser apart: what is before the port and
// what is behind.
func loopback(raw string) (host, rest string, ok bool) {
	after, ok := strings.CutPrefix(raw, "http://")
	if !ok {
		return "", "", false
	}
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	host, rest = after[:end], after[end:]
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		if port, err := strconv.ParseUint(host[i+1:], 10, 16); err != nil || port == 0 {
			return "", "", false
		}
		host = host[:i]
	}
	return host, rest, host == "127.0.0.1" || host == "[::1]" || host == "localhost"
}

// redirects reports whether a browser may be sent to an address: one of the client's, byte by
// byte, but for the port on the machine of the browser (RFC 8252, section 7.3).
func (c *client) redirects(to string) bool {
	if checkRedirect(to, true) != nil {
		return false
	}
	host, rest, local := loopback(to)
	return slices.ContainsFunc(c.Redirects, func(known string) bool {
		if known == to {
			return true
		}
		h, r, ok := loopback(known)
		return ok && local && h == host && r == rest
	})
}

// trusts reports whether the browser is sent to a redirect address without a person having agreed
// to (AUTH-08).
func (c *client) trusts(to string) bool {
	_, _, local := loopback(to)
	return local || c.kind == configured
}
