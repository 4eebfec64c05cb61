// Package ticket seals what travels through a client between two rounds of one call:
// the requestState of 2026-07-28.
//
// A [Ticket] holds what a handler needs to run again from the top: the answers it was
// given so far, the results of what it must not do twice, and which questions are
// open. It is encrypted with XChaCha20-Poly1305 and bound to a [Binding], so that
// nobody can read or change it, and to nobody else or for another call is it worth
// anything (MRTR-06, SECA-12):
//
//	sealer, err := ticket.New(nil)
//	state, err := sealer.Seal(t, binding)   // ErrTooLarge: some of it has to be kept here
//	t, err := sealer.Open(state, binding)   // ErrInvalid, whatever is wrong with it
//
// A [Sealer] does not change and may be used from any goroutine.
package ticket
