package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// testApprovals: consent holds for one definition (SECA-38, SECA-45).
func testApprovals(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	at := store.Clock(time.Now())
	approve := func(file, server, hash string) store.Approval {
		t.Helper()
		a := store.Approval{File: file, Server: server, Hash: hash, Shown: "npx " + server, By: "ada", Trusted: hash == "h1", At: at}
		if err := s.Approve(t.Context(), a); err != nil {
			t.Fatalf("Approve(%+v): %v", a, err)
		}
		return a
	}
	b2 := approve("b.json", "x", "h2")
	a1 := approve("a.json", "x", "h1")
	b1 := approve("b.json", "x", "h1")
	by := approve("b.json", "y", "h1")

	got, ok, err := s.Approved(t.Context(), "b.json", "x", "h1")
	if err != nil || !ok {
		t.Fatalf("Approved: got %v, %v, want true", ok, err)
	}
	wantEqual(t, "Approved", got, b1)
	for _, miss := range [][3]string{{"b.json", "x", "h3"}, {"B.json", "x", "h1"}, {"b.json", "X", "h1"}, {"a.json", "y", "h1"},
		{"b.json", "x", ""}, {"b.json", "x", "%"}, {"", "", ""}} {
		if _, ok, err := s.Approved(t.Context(), miss[0], miss[1], miss[2]); ok || err != nil {
			t.Errorf("Approved(%q): got %v, %v, want false", miss, ok, err)
		}
	}
	list, err := s.Approvals(t.Context())
	wantErr(t, "Approvals", err, nil)
	wantEqual(t, "Approvals", list, []store.Approval{a1, b1, b2, by})

	b1.By = "bob"
	wantErr(t, "Approve again", s.Approve(t.Context(), b1), nil)
	got, _, err = s.Approved(t.Context(), "b.json", "x", "h1")
	wantErr(t, "Approved", err, nil)
	wantEqual(t, "Approved again", got, b1)

	wantErr(t, "Revoke", s.Revoke(t.Context(), "b.json", "x", "h1"), nil)
	wantErr(t, "Revoke again", s.Revoke(t.Context(), "b.json", "x", "h1"), store.ErrNotFound)
	wantErr(t, "Revoke of a pattern", s.Revoke(t.Context(), "b.json", "%", ""), store.ErrNotFound)
	approve("b.json", "x", "h1")
	wantErr(t, "Revoke of a server", s.Revoke(t.Context(), "b.json", "x", ""), nil)
	list, err = s.Approvals(t.Context())
	wantErr(t, "Approvals", err, nil)
	wantEqual(t, "Approvals after Revoke", list, []store.Approval{a1, by})

	for _, bad := range []store.Approval{{Server: "x", Hash: "h"}, {File: "f", Hash: "h"}, {File: "f", Server: "x"}} {
		wantErr(t, fmt.Sprintf("Approve(%+v)", bad), s.Approve(t.Context(), bad), store.ErrInvalid)
	}
}
