package pins

import (
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// ROB-3: what is remembered is bounded.
func TestDefinitionsAreBounded(t *testing.T) {
	p := New(nil)
	for i := range maxSeen + 10 {
		p.keep(Key{"s", fmt.Sprint(i)}, "h", new(mcp.Tool))
	}
	if p.before.Len() > maxSeen {
		t.Errorf("%d definitions are kept", p.before.Len())
	}
}
