package mcpclient

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
)

// Extension returns the settings with which the server declares an extension, and
// whether it does (EXT-01). They are the server's word: a program validates them
// (EXT-06). Without it the core protocol is what there is (EXT-02).
func (i *Info) Extension(id string) (settings json.RawMessage, ok bool) {
	if i == nil {
		return nil, false
	}
	return i.Capabilities.Extension(id)
}

// checkExtensions refuses what can not be declared: an id needs a prefix (EXT-01,
// META-02), and settings are an object.
func checkExtensions(extensions map[string]json.RawMessage) error {
	for id, settings := range extensions {
		if err := mcp.CheckMetaKey(id); err != nil || !strings.Contains(id, "/") {
			return fmt.Errorf("mcpclient: extension %q: an id is a prefix like com.example, a slash and a name", id)
		}
		var object map[string]json.RawMessage
		if err := mcp.Unmarshal(settings, &object); err != nil || object == nil {
			return fmt.Errorf("mcpclient: extension %s: its settings are not a JSON object", id)
		}
	}
	return nil
}
