package offered

import (
	"fmt"
	"maps"

	"github.com/troupe-dev/troupe/mcp"
)

// Identity is a server's description of itself, which its results of 2026-07-28 have in their
// _meta (META-06).
type Identity struct {
	// Raw is `"_meta":{…}` with nothing else in it.
	Raw  []byte
	info mcp.Implementation
}

// NewIdentity encodes the description.
func NewIdentity(info mcp.Implementation) (*Identity, error) {
	meta := mcp.Meta{}
	if err := meta.Set(mcp.MetaServerInfo, info); err != nil {
		return nil, err
	}
	raw, err := mcp.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("describing the server: %w", err)
	}
	return &Identity{Raw: append([]byte(`"_meta":`), raw...), info: info}, nil
}

// Finish adds the identity to an encoded result that has no _meta.
func (i *Identity) Finish(result []byte, v mcp.Version) []byte {
	if v.Era() != mcp.EraModern || len(result) < 2 {
		return result
	}
	end := len(result) - 1 // the closing brace
	if result[end-1] != '{' {
		result = append(result[:end], ',')
	} else {
		result = result[:end]
	}
	return append(append(result, i.Raw...), '}')
}

// Meta returns the _meta of a handler's result with the identity in it.
func (i *Identity) Meta(meta mcp.Meta, v mcp.Version) mcp.Meta {
	if v.Era() != mcp.EraModern {
		return meta
	}
	all := make(mcp.Meta, len(meta)+1)
	maps.Copy(all, meta)
	_ = all.Set(mcp.MetaServerInfo, i.info) // NewIdentity has encoded it before
	return all
}
