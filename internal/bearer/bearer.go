// Package bearer holds the tokens that clients of our own HTTP servers send: what one may
// be, and whether a request has it.
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The length of a token, in characters.
const (
	MinLength = 16
	MaxLength = 4096
)

// Errors of [Check].
var (
	ErrLength     = fmt.Errorf("a token has %d to %d characters; make one with: openssl rand -hex 32", MinLength, MaxLength)
	ErrCharacters = errors.New("a token has letters, digits and any of - . _ ~ + /, and may end in =; make one with: openssl rand -hex 32")
)

// Check refuses a token that is short, or that a client cannot send: RFC 6750 section
// 2.1 says what one is made of.
func Check(token string) error {
	if len(token) < MinLength || len(token) > MaxLength {
		return ErrLength
	}
	body := strings.TrimRight(token, "=")
	if body == "" || strings.ContainsFunc(body, func(r rune) bool { return !allowed(r) }) {
		return ErrCharacters
	}
	return nil
}

func allowed(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/", r)
}

// Token is what a request is held against. The zero value fits none.
type Token struct{ sum *[sha256.Size]byte }

// New returns the Token of a text.
func New(text string) Token {
	sum := sha256.Sum256([]byte(text))
	return Token{&sum}
}

// In reports whether a request has the token, in its one Authorization header. It takes as
// long for any wrong one.
func (t Token) In(r *http.Request) bool {
	given := r.Header.Values("Authorization")
	if t.sum == nil || len(given) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}
