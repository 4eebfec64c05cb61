package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// TOOL-15, CMP-04: requests beyond the rate are refused, and told when to come again.
func TestRateLimit(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, &mcpserver.Options{Limits: mcpserver.Limits{RatePerSecond: 2, RateBurst: 5}})
				p := serve(t, s)
				p.open(v)
				time.Sleep(time.Minute) // what opening took is forgotten
				for i := range 5 {
					p.ask(call(v, i, "echo", `{"text":"x"}`))
				}
				for _, line := range []string{call(v, 9, "echo", `{"text":"x"}`), request(v, 9, mcp.MethodListTools, "{}")} {
					e := p.expectError(line, mcpserver.CodeRateLimited, "9")
					var data struct{ RetryAfterMs int64 }
					if err := json.Unmarshal(e.Data, &data); err != nil || data.RetryAfterMs != 500 {
						t.Errorf("got %s, want 500 ms", e.Data)
					}
				}
				if v.Era() == mcp.EraLegacy { // PING-01
					p.expect(request(v, 10, mcp.MethodPing, "{}"), `{"jsonrpc":"2.0","id":10,"result":{}}`)
				}
				other := serve(t, s) // nobody too, but another connection
				other.open(v)
				other.ask(call(v, 1, "echo", `{"text":"x"}`))
				time.Sleep(500 * time.Millisecond)
				if got := p.ask(call(v, 11, "echo", `{"text":"x"}`)); !strings.Contains(got, `"result"`) {
					t.Errorf("later: got %s", got)
				}
				p.expectError(call(v, 12, "echo", `{"text":"x"}`), mcpserver.CodeRateLimited, "12")
			})
		})
	}
}

// A principal has one limit on all connections.
func TestRateLimitOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, &mcpserver.Options{Limits: mcpserver.Limits{RatePerSecond: 1, RateBurst: 4}, Principal: &mcpserver.Principal{ID: "ada"}})
		var refused int
		for i := range 4 {
			p := serve(t, s)
			p.modern()
			for j := range 2 {
				if strings.Contains(p.ask(call(p.version, j, "echo", fmt.Sprintf(`{"text":"%d"}`, i))), fmt.Sprint(mcpserver.CodeRateLimited)) {
					refused++
				}
			}
		}
		if refused != 4 {
			t.Errorf("%d of 8 were refused, want 4", refused)
		}
	})
}
