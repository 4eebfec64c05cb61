package auth

import "net/http"

// WithClient returns options whose issuers are contacted by hc.
func WithClient(o Options, hc *http.Client) Options {
	o.client = hc
	return o
}

// Remembered returns how many tokens are remembered, and the bound.
func (s *ResourceServer) Remembered() (n, most int) { return s.seen.Len(), maxSeen }

// Forget removes the tokens that are remembered.
func (s *ResourceServer) Forget() { s.seen.DeleteFunc(nil) }
