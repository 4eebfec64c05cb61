package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcpclient"
)

// twoPersons: two callers with a person each share one connection. Nobody sees a
// question of the other's call, also where the wire does not say whose it is.
func twoPersons(t *testing.T, r *rig) {
	const calls = 5
	ended := make(chan error, 2*calls)
	persons := map[string]*Person{}
	for _, name := range []string{"Ada", "Bob"} {
		p := &Person{Fills: map[string]json.RawMessage{"name": Quote(name)}}
		persons[name] = p
		for range calls {
			go func() {
				res, err := r.client.CallTool(r.ctx, "trigger-elicitation-request", nil, &mcpclient.CallOptions{Human: p, Path: []string{name}})
				if err == nil && !strings.Contains(res.Content.Text(), "Name: "+name) {
					err = fmt.Errorf("the call of %s got %s", name, res.Content.Text())
				}
				ended <- err
			}()
		}
	}
	for range 2 * calls {
		if err := next(r.ctx, t, ended, "the end of a call"); err != nil {
			t.Error(err)
		}
	}
	for name, p := range persons {
		if got := len(p.Asks()); got != calls {
			t.Errorf("%s was asked %d times, want %d", name, got, calls)
		}
	}
	if got := len(r.person.Asks()); got != 0 {
		t.Errorf("the connection's person was asked %d times, want 0", got)
	}
}
