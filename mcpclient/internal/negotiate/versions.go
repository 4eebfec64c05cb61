package negotiate

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/mcp"
)

// Protocols of a definition, beside a revision's date.
const (
	Auto   = "auto"
	Legacy = "legacy"
	Modern = "modern"
)

var all, legacy = mcp.Versions(), mcp.LegacyVersions()

// Versions returns the revisions that may be used, newest first, where a definition has this protocol. They must
// not be changed: all clients have the same.
func Versions(protocol string) ([]mcp.Version, error) {
	switch protocol {
	case "", Auto:
		return all, nil
	case Legacy:
		return legacy, nil
	case Modern:
		return slices.DeleteFunc(mcp.Versions(), func(v mcp.Version) bool { return v.Era() != mcp.EraModern }), nil
	}
	if v := mcp.Version(protocol); v.Known() {
		return []mcp.Version{v}, nil
	}
	return nil, fmt.Errorf("unknown protocol %q: want auto, legacy, modern or one of %v", protocol, mcp.Versions())
}
