// Package consent looks for what a user has agreed to start.
package consent

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Of returns the recorded consent to start a server of a file as it is defined now; ok is false without one. Consent
// that an earlier version has recorded counts by the rule that it was bound by. It is bound by today's from then on:
// what that rule left out may change no more.
func Of(ctx context.Context, approvals store.Approvals, s *mcpclient.Server) (a store.Approval, ok bool, err error) {
	if s.File == "" || s.Hash == "" {
		return a, false, nil
	}
	a, ok, err = approvals.Approved(ctx, s.File, s.Name, s.Hash)
	if err == nil && !ok && s.EarlierHash != "" && s.EarlierHash != s.Hash {
		a, ok, err = renewed(ctx, approvals, s)
	}
	if err != nil {
		return a, false, fmt.Errorf("looking for the approval of the server %s: %w", s.Name, err)
	}
	return a, ok, nil
}

func renewed(ctx context.Context, approvals store.Approvals, s *mcpclient.Server) (store.Approval, bool, error) {
	a, ok, err := approvals.Approved(ctx, s.File, s.Name, s.EarlierHash)
	if err != nil || !ok {
		return a, false, err
	}
	a.Hash = s.Hash
	if err := approvals.Approve(ctx, a); err != nil {
		return a, false, err
	}
	if err := approvals.Revoke(ctx, s.File, s.Name, s.EarlierHash); err != nil && !errors.Is(err, store.ErrNotFound) { // another process has done it
		return a, false, err
	}
	return a, true, nil
}
