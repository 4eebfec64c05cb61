package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Root is a place the client lets the server know of: guidance, not a sandbox.
type Root struct {
	URI  string `json:"uri"` // file://
	Name string `json:"name,omitzero"`
	Meta Meta   `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ListRootsResult answers roots/list.
type ListRootsResult struct {
	Roots []Root `json:"roots"`
	Meta  Meta   `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that roots is there and that each is a file URI.
func (r *ListRootsResult) Validate() error {
	for _, root := range r.Roots {
		if !strings.HasPrefix(root.URI, "file://") {
			return fmt.Errorf("%s result: %q is not a file URI", MethodListRoots, root.URI)
		}
	}
	return required("roots/list result", "roots", r.Roots != nil)
}
