package asks

import (
	"testing"
)

func TestRootPath(t *testing.T) {
	good := map[string]string{
		"file:///": "/", "file:///a/b": "/a/b", "file:///a/b/": "/a/b/", "file:///C:/x": "/C:/x", "file:///a%20b": "/a b",
	}
	for uri, want := range good {
		if got, err := RootPath(uri); err != nil || got != want {
			t.Errorf("RootPath(%q): got %q, %v; want %q", uri, got, err, want)
		}
	}
	for _, uri := range []string{ // SECA-46
		"", "/a", "https://a/b", "FILE:///a", "file:/a", "file://a", "file://localhost/a", "file:////server/share",
		"file:///a/../b", "file:///a/%2e%2e/b", "file:///a/./b", "file:///a//b", "file:///%2fserver", "file:///a%5c..%5cb",
		"file:///a\\..\\b", "file:///a%00", "file:///a?x", "file:///a#x", "file:///%zz", "file:///..",
	} {
		if got, err := RootPath(uri); err == nil {
			t.Errorf("RootPath(%q): got %q, want an error", uri, got)
		}
	}
}
