package lists

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/internal/schema"
)

// Bounds on the compiled schemas of one client.
const (
	maxSchemas     = 1000
	maxSchemasSize = 8 << 20 // bytes of their text
)

// Schemas keeps output schemas compiled, also those that cannot be (SECA-48): the bounds of
// package schema hold for each.
type Schemas struct {
	byHash memo.Map[[sha256.Size]byte, compiled]
	warned memo.Map[string, bool] // tools
}

type compiled struct {
	schema *schema.Schema
	err    error
}

// Compile returns a schema.
func (s *Schemas) Compile(raw json.RawMessage) (*schema.Schema, error) {
	hash := sha256.Sum256(raw)
	c, ok := s.byHash.Get(hash)
	if !ok {
		c.schema, c.err = schema.Compile(raw, &schema.Options{Lenient: true})
		s.byHash.Set(hash, c, len(raw))
	}
	return c.schema, c.err
}

// Warns reports whether a warning about a tool is the first.
func (s *Schemas) Warns(tool string) bool {
	if warned, _ := s.warned.Get(tool); warned || s.warned.Len() >= maxSchemas {
		return false
	}
	s.warned.Set(tool, true, 0)
	return true
}
