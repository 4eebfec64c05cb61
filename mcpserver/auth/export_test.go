package auth

import "net/http"

// WithClient returns options whose issuers are contacted by hc.
func WithClient(o Options, hc *http.Client) Options {
	o.client = hc
	return o
}

// Remembered returns how many tokens are remembered, and the bound.
func (s *ResourceServer) Remembered() (n, most int) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	return len(s.seen.new) + len(s.seen.old), 2 * maxSeen
}

// Forget removes the tokens that are remembered.
func (s *ResourceServer) Forget() {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	clear(s.seen.new)
	clear(s.seen.old)
}
