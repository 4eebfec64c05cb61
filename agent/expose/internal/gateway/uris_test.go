package gateway

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// testBook has two servers that list the same, and what is theirs alone.
func testBook() *uriBook {
	return newBook([]string{"one", "Two"},
		[]target{
			{"one", "test://both"}, {"one", "test://one"}, {"one", "no scheme"},
			{"Two", "test://both"}, {"Two", "test://two"}, {"Two", "troupe://runs/1"}, {"Two", "troupe+one:test://one"},
		},
		[]target{
			{"one", "file:///{+path}"}, {"Two", "file:///{+path}"}, {"Two", "file:///two/{name}"}, {"Two", "{+any}"},
		})
}

func TestBook(t *testing.T) {
	b := testBook()
	two := uriPrefix("Two")
	for _, tt := range []struct{ server, uri, want string }{
		{"one", "test://both", "test://both"}, // the first in the configuration
		{"Two", "test://both", two + "test://both"},
		{"Two", "test://two", "test://two"},
		{"one", "no scheme", "troupe+one:no scheme"},
		{"Two", "troupe://runs/1", two + "troupe://runs/1"}, // runs are the front's
		{"Two", "troupe+one:test://one", two + "troupe+one:test://one"},
	} {
		got := b.listed(target{tt.server, tt.uri})
		if got != tt.want {
			t.Errorf("listed(%q, %q): got %q, want %q", tt.server, tt.uri, got, tt.want)
		}
		if server, own, ok := b.named(got); ok != (got != tt.uri) || ok && (server != tt.server || own != tt.uri) {
			t.Errorf("named(%q): got %q of %q and %v, want %q of %q", got, own, server, ok, tt.uri, tt.server)
		}
	}
	for _, tt := range []struct{ server, template, want string }{
		{"one", "file:///{+path}", "file:///{+path}"},
		{"Two", "file:///{+path}", two + "file:///{+path}"},
		{"Two", "file:///two/{name}", "file:///two/{name}"},
		{"Two", "{+any}", two + "{+any}"},
	} {
		if got := b.template(target{tt.server, tt.template}); got != tt.want {
			t.Errorf("template(%q, %q): got %q, want %q", tt.server, tt.template, got, tt.want)
		}
	}
	for uri, want := range map[string]string{
		"test://both": "one", "test://two": "Two", "test://none": "",
		"file:///two/x": "Two", // the longest fixed part, as the server looks for it
		"file:///x":     "one", "file:///two/x/y": "one",
	} {
		matches := maxMatches
		if got := b.owner(uri, &matches); got != want {
			t.Errorf("owner(%q): got %q, want %q", uri, got, want)
		}
	}
}

func TestURIPrefix(t *testing.T) {
	seen := map[string]string{}
	for _, server := range []string{"files", "Files", "FILES", "my files", "my_files", "my-files", "a+b", "ä", "a:b", "1.2"} {
		p := uriPrefix(server)
		if !strings.HasPrefix(p, "troupe+") || isPlainURI(p+"x:y") || strings.ToLower(p) != p {
			t.Errorf("uriPrefix(%q): got %q, which is no scheme of ours", server, p)
		}
		if other, ok := seen[p]; ok {
			t.Errorf("uriPrefix(%q): got %q, which is that of %q", server, p, other)
		}
		seen[p] = server
	}
}

func TestRewriter(t *testing.T) {
	b, known := testBook(), newLinks()
	two := uriPrefix("Two")
	for _, tt := range []struct{ server, uri, want string }{
		{"one", "test://one", "test://one"},
		{"Two", "test://one", two + "test://one"}, // read of Two, who has sent it (SECA-42)
		{"Two", "test://both", two + "test://both"},
		{"Two", "file:///x", two + "file:///x"}, // would be read of one
		{"Two", "file:///two/x", "file:///two/x"},
		{"one", "file:///two/x", "troupe+one:file:///two/x"},
		{"one", "test://unlisted", "test://unlisted"},
		{"Two", "test://unlisted", two + "test://unlisted"}, // the other's, as it is known now
		{"Two", "relative/path", two + "relative/path"},
		{"Two", "troupe+one:test://one", two + "troupe+one:test://one"},
		{"Two", "", ""},
	} {
		if got := (&rewriter{b, known, tt.server, maxMatches}).uri(tt.uri); got != tt.want {
			t.Errorf("uri(%q) of server %q: got %q, want %q", tt.uri, tt.server, got, tt.want)
		}
	}
	if got := known.owner("test://unlisted"); got != "one" {
		t.Errorf("owner of a link: got %q, want one", got)
	}
}

func TestRewriterBlocks(t *testing.T) {
	w := &rewriter{testBook(), newLinks(), "Two", maxMatches}
	two := uriPrefix("Two")
	link := &mcp.ResourceLink{URI: "test://both", Name: "both", Title: "T"}
	embedded := &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "test://both", Text: "x"}}
	got := w.blocks(mcp.Contents{mcp.Text("test://both"), link, embedded})
	want := mcp.Contents{
		mcp.Text("test://both"), // text is nobody's to change
		&mcp.ResourceLink{URI: two + "test://both", Name: "both", Title: "T"},
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: two + "test://both", Text: "x"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("blocks: got %+v, want %+v", got, want)
	}
	if link.URI != "test://both" || embedded.Resource.URI != "test://both" {
		t.Errorf("blocks has changed what it was given: %q and %q", link.URI, embedded.Resource.URI)
	}
}

// A server that has thousands of templates, and sends thousands of links, costs what one
// does (ROB-3, SECA-10): what is not looked for names its server.
func TestRewriterIsBounded(t *testing.T) {
	var templates []target
	for i := range 1000 {
		templates = append(templates, target{"evil", fmt.Sprintf("test://{+a}/%d", i)})
	}
	w := &rewriter{newBook([]string{"evil"}, nil, templates), newLinks(), "evil", maxMatches}
	for i := range 1000 {
		uri := fmt.Sprintf("test://x/no%d", i)
		got := w.uri(uri)
		if i == 0 && got != uri || i == 999 && got != "troupe+evil:"+uri {
			t.Errorf("uri(%q), the %dth: got %q", uri, i, got)
		}
	}
}

func TestLinksAreBounded(t *testing.T) {
	l := newLinks()
	for i := range 3 * maxLinks {
		l.claim(fmt.Sprint("test://", i), "a")
		l.owner("test://0") // is used all the time
	}
	if n := l.Len(); n > maxLinks {
		t.Errorf("links remember %d URIs, want at most %d", n, maxLinks)
	}
	if got := l.owner("test://0"); got != "a" {
		t.Errorf("owner of a link that is used: got %q, want a", got)
	}
	if got := l.owner("test://1"); got != "" {
		t.Errorf("owner of a link that was not used for long: got %q, want none", got)
	}
}

func FuzzURIs(f *testing.F) {
	f.Add("one", "test://both")
	f.Add("Two", "troupe+one:troupe://runs/1")
	f.Add("Two", ":")
	f.Add("Two", "file:///two/%zz")
	f.Fuzz(func(t *testing.T, server, uri string) {
		b := testBook()
		if b.prefixes[server] == "" || uri == "" {
			return
		}
		// What a result says is found again, with the server that has sent it.
		got := (&rewriter{b, newLinks(), server, maxMatches}).uri(uri)
		owner, own, named := b.named(got)
		switch {
		case named && (owner != server || own != uri):
			t.Errorf("uri(%q) of %q: got %q, which is %q of %q", uri, server, got, own, owner)
		case !named && got != uri:
			t.Errorf("uri(%q) of %q: got %q, which names no server", uri, server, got)
		}
	})
}
