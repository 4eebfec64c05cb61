package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
)

// proofTime is how far the time in a proof may be from ours. A proof is remembered as long.
const proofTime = time.Minute

// checkProof checks that the sender has the key that its token is bound to, by a proof for
// this request that was not used before (RFC 9449, section 4.3). A token that is bound is not
// good as a bearer token.
func (s *ResourceServer) checkProof(r *http.Request, scheme bool, key string, token [sha256.Size]byte, now time.Time) error {
	fail := func(why string) error { return because(s.denied.badProof, errors.New(why)) }
	switch {
	case key == "":
		return fail("the token is not bound to a key")
	case !scheme:
		return fail("a bound token came as a bearer token")
	}
	proofs := r.Header["Dpop"]
	if len(proofs) != 1 || len(proofs[0]) > maxToken {
		return fail("the request has no proof, or several")
	}
	c, thumbprint, err := oauth.VerifyProof(proofs[0])
	if err != nil {
		return because(s.denied.badProof, err)
	}
	at := timeOf(c.IssuedAt)
	switch {
	case subtle.ConstantTimeCompare([]byte(thumbprint), []byte(key)) != 1:
		return fail("the proof is of another key")
	case c.Method != r.Method || !s.isHere(c.URL, r):
		return fail("the proof is for another request")
	case c.TokenHash != base64.RawURLEncoding.EncodeToString(token[:]):
		return fail("the proof is for another token")
	case at.Before(now.Add(-proofTime)) || at.After(now.Add(proofTime)):
		return fail("the proof is too old, or of a clock that is wrong")
	case len(s.opts.NonceKey) > 0 && c.Nonce != s.nonce(now) && c.Nonce != s.nonce(now.Add(-nonceTime)):
		e := s.denied.noNonce
		e.Nonce = s.nonce(now)
		return because(e, errors.New("the proof lacks a nonce, or has an old one"))
	case c.ID == "" || !s.proofs.first(sha256.Sum256([]byte(thumbprint+" "+c.ID)), now, at.Add(proofTime+time.Second)):
		return fail("the proof was used before")
	}
	return nil
}

// nonceTime is how long one nonce is given out. It is good as long again.
const nonceTime = 5 * time.Minute

// nonce returns the nonce that is given out at a time. Nothing of it is kept (RFC 9449, section 8).
func (s *ResourceServer) nonce(at time.Time) string {
	mac := hmac.New(sha256.New, s.opts.NonceKey)
	fmt.Fprintf(mac, "dpop nonce %d %s", at.Unix()/int64(nonceTime/time.Second), s.opts.Resource) // it never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// isHere reports whether an address in a proof is that of the request, as the client knows
// it: a proxy may have changed the host.
func (s *ResourceServer) isHere(address string, r *http.Request) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	bare := u.Scheme + "://" + u.Host
	return bare == s.resource.Scheme+"://"+s.resource.Host && (u.EscapedPath() == s.resource.EscapedPath() || u.EscapedPath() == r.URL.EscapedPath())
}
