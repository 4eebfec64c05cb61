package mcpserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// RES-07: a resource may have any scheme that RFC 3986 allows (3.1), and no other; its
// URI is kept as it was given.
func TestSchemes(t *testing.T) {
	uris := map[string]bool{
		"https://example.com/a?b#c": true, "file:///a/b%20c": true, "git://repo/a@main": true, "ui://view/1": true,
		"x:y": true, "X-1.a+b:c": true, "urn:isbn:0451450523": true, "screen://": true, "file:///ü": true,
		"1x:y": false, "-x:y": false, "x_y:z": false, "x y:z": false, "ü:y": false, ":y": false, "x": false, "//host/x": false,
		"x:a b": false, "x:a\nb": false, "x:%zz": false, "x:%4": false, "x:<a>": false, "x:a\x00": false, "x:\xff": false, `x:a\b`: false,
	}
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		good, _ := newServer(t, nil)
		for uri, want := range uris {
			on := s // Serve fails for ever where one was refused
			if want {
				on = good
			}
			err := mcpserver.AddResourceFunc(on, &mcp.Resource{URI: uri, Name: uri}, fixed("read"))
			if (err == nil) != want {
				t.Errorf("AddResource of %q: got %v, want it taken: %v", uri, err, want)
			}
			template := &mcp.ResourceTemplate{URITemplate: uri + "/{v}", Name: uri}
			err = mcpserver.AddTemplateFunc(on, template, func(context.Context, mcpserver.Vars) (string, error) { return "", nil })
			if (err == nil) != want {
				t.Errorf("AddTemplate of %q: got %v, want it taken: %v", template.URITemplate, err, want)
			}
		}
		p := serve(t, good)
		p.modern()
		for uri, want := range uris {
			if !want {
				continue
			}
			if got := p.ask(request(p.version, 1, mcp.MethodReadResource, fmt.Sprintf(`{"uri":%q}`, uri))); !strings.Contains(got, fmt.Sprintf(`"uri":%q`, uri)) || !strings.Contains(got, "read") {
				t.Errorf("reading %q: got %s", uri, clip(got))
			}
		}
	})
}
