package lists

import (
	"encoding/json"
	"fmt"
	"testing"
)

// What is compiled is bounded, and the same schema is compiled once.
func TestCompiledSchemas(t *testing.T) {
	var c Cache
	c.Init(nil, nil, nil, nil)
	s := c.Outputs()
	one, _ := s.Compile(json.RawMessage(`{"type":"object"}`))
	two, _ := s.Compile(json.RawMessage(`{"type":"object"}`))
	if one != two || s.byHash.Len() != 1 {
		t.Error("the same schema was compiled twice")
	}
	for i := range maxSchemas + 10 {
		_, _ = s.Compile(fmt.Appendf(nil, `{"const":%d}`, i))
	}
	if s.byHash.Len() > maxSchemas {
		t.Errorf("%d schemas are kept", s.byHash.Len())
	}
}
