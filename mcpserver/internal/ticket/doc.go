// Package ticket seals the requestState of 2026-07-28: the progress of a call, which travels
// through the client between two rounds.
//
// A [Ticket] holds what a handler needs to run again from the top: the answers it was
// given so far, the results of steps that it must not repeat, and the open questions. It is encrypted with XChaCha20-Poly1305 and bound to a [Binding], so that
// a client cannot read or change it, and it is valid for no other principal and no other
// call (MRTR-06, SECA-12):
//
//	sealer, err := ticket.New(nil)
//	state, err := sealer.Seal(t, binding)   // ErrTooLarge: some of it has to be kept here
//	t, err := sealer.Open(state, binding)   // ErrInvalid for every mistake
//
// A [Sealer] does not change and may be used from any goroutine.
package ticket
