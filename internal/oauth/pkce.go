package oauth

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/oauth2"
)

// newRandom returns 32 random bytes in 43 characters that need no encoding: a PKCE verifier
// (RFC 7636), and a state.
func newRandom() Secret { return NewSecret(oauth2.GenerateVerifier()) }

// ErrNoPKCE is the error of an authorization server that does not say that it checks S256.
var ErrNoPKCE = errors.New("the authorization server does not support PKCE with S256")

// checkPKCE refuses a server that a stolen code would be of use at. One of 2025-03-26 need not
// say that it checks: it must.
func (s *Server) checkPKCE() error {
	if s.Legacy && s.PKCEMethods == nil || slices.Contains(s.PKCEMethods, "S256") {
		return nil
	}
	return fmt.Errorf("%w: the metadata of %s must have it in code_challenge_methods_supported", ErrNoPKCE, s.Issuer)
}
