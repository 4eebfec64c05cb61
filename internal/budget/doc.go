// Package budget holds what a tree of runs may spend: tokens, money, model calls,
// tool calls and turns.
// Runs (actors/loop), agents and servers that sample use it.
//
// An [Account] belongs to one run, and the accounts of what it starts (sub-agents,
// sampling loops) are its children. A spender reserves the most it may
// cost, first and of the whole path up to the root, and settles afterwards with what it
// has cost:
//
//	hold, err := account.Reserve(budget.Amount{Tokens: 900, ModelCalls: 1})
//	if err != nil {
//		return err // a *LimitError: which limit of which account
//	}
//	defer hold.Release() // does nothing once settled
//	// … the call …
//	hold.Settle(budget.Amount{Tokens: 512, ModelCalls: 1})
//
// # Promises
//
//   - What is reserved and what was spent of reservations never exceed a limit
//     together, of any account and at any moment.
//   - A call may cost more than was held for it, because its estimate was wrong. That
//     is charged in full, and [Report] says by how much. Nothing more can be reserved
//     of an account that is over its limit, so the limit is exceeded by no more than
//     the errors of the calls that were in flight.
//   - A hold counts once: the first of [Hold.Settle], [Hold.Release] and
//     [Account.Close] decides what becomes of the reservation.
//
// A tree of accounts is plain data under one mutex. No method waits, and all may be
// called from any goroutine at the same time.
package budget
