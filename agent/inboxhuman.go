package agent

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/agent/internal/serverask"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// InboxOptions changes an [InboxHuman]; nil is the same as the zero value.
type InboxOptions struct {
	// Path is shown before the path of each question: the asker on whose behalf it is put.
	Path []string
	// Expiry is how long a question waits. Zero means as long as the caller's: see
	// [mcpclient.AskOptions].AskExpiry.
	Expiry time.Duration
	// By is recorded as the decider of a question that is given up. Empty is "program".
	By string
	// Poll is how often the store is looked at. Zero, and more than a second, is a second.
	Poll time.Duration
}

// InboxHuman returns a Human that puts questions into a store and waits until
// they are settled there: by the command troupe inbox, a web page, another process. They are of
// no run. A question that is given up before is settled as cancelled, so that no
// person answers it in vain; one that expires is declined. The answers are those that
// [Accept], [Fill], [DecideAs] and [Decline] make.
func InboxHuman(s store.Asks, o *InboxOptions) mcpclient.Human {
	opts := *cmp.Or(o, new(InboxOptions))
	if opts.Poll <= 0 || opts.Poll > time.Second {
		opts.Poll = time.Second
	}
	return &serverask.Inbox{Store: s, Path: slices.Clone(opts.Path), Expiry: opts.Expiry, By: cmp.Or(opts.By, "program"), Poll: opts.Poll}
}
