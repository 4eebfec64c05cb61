package mcpclient

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// TestObservers: all that a server sends on its own account is seen, in order, what
// is unknown or refused too, and before the answer that it came ahead of.
func TestObservers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		s.on["custom/work"] = func(s *asker, m *mcp.Message) string {
			s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			s.say(`{"jsonrpc":"2.0","method":"notifications/strange"}`)
			s.ask("q1", mcp.MethodPing, "")
			s.ask("q2", mcp.MethodCreateMessage, `{"messages":[],"maxTokens":1}`) // not declared
			return resultOf(m, `{}`)
		}
		var seen []string
		c := s.dial(&Options{Observers: Observers{
			OnNotification: func(_, method string, params json.RawMessage) { seen = append(seen, method+" "+string(params)) },
			OnRequest:      func(_, method string, params json.RawMessage) { seen = append(seen, method+" "+string(params)) },
		}})
		if _, err := c.Request(t.Context(), "custom/work", nil, nil); err != nil {
			t.Fatalf("Request: %v", err)
		}
		want := []string{
			`notifications/message {"level":"info","data":"x"}`, "notifications/strange ",
			"ping {}", `sampling/createMessage {"messages":[],"maxTokens":1}`,
		}
		if !slices.Equal(seen, want) {
			t.Errorf("observed %q, want %q", seen, want)
		}
	})
}
