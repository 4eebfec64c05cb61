package consent

import (
	"testing"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// SECA-45: consent that an earlier version has recorded holds once for the definition as it is by then, and no more
// for what that version's rule left out.
func TestRenewed(t *testing.T) {
	s := memstore.New(nil)
	t.Cleanup(func() { _ = s.Close() })
	def := mcpclient.Server{Name: "s", File: "/p/.mcp.json", Hash: "now", EarlierHash: "then"}
	if _, ok, err := Of(t.Context(), s, &def); ok || err != nil {
		t.Fatalf("without consent: got %v, %v", ok, err)
	}
	if err := s.Approve(t.Context(), store.Approval{File: def.File, Server: def.Name, Hash: "then", Shown: "x", By: "ada", Trusted: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a, ok, err := Of(t.Context(), s, &def); !ok || err != nil || !a.Trusted || a.By != "ada" {
			t.Errorf("consent of an earlier version: got %+v, %v, %v", a, ok, err)
		}
	}
	def.Hash = "with another file of variables"
	if _, ok, err := Of(t.Context(), s, &def); ok || err != nil {
		t.Errorf("after it was renewed: got %v, %v", ok, err)
	}
	all, err := s.Approvals(t.Context())
	if err != nil || len(all) != 1 || all[0].Hash != "now" {
		t.Errorf("recorded: %+v, %v", all, err)
	}
}
