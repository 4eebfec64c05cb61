// uris.go: the URIs of resources of many backends behind one endpoint.
//
// A URI that one backend has stays as it is. A URI that an earlier backend has too, and one
// without a scheme, becomes troupe+<server>:<uri>, which names its backend.

package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
)

// ownScheme is the scheme of the front's own resources, and the beginning of those that name a
// backend.
const ownScheme = "troupe"

// Bounds.
const (
	maxMatches = 4096 // comparisons of URIs with templates, for one result
	maxLinks   = 4096 // remembered URIs of results
)

// uris are the URIs of one gateway.
type uris struct {
	book  atomic.Pointer[uriBook]
	links *links
}

// rewriter returns a rewriter for one result of a backend.
func (u *uris) rewriter(server string) *rewriter {
	return &rewriter{u.book.Load(), u.links, server, maxMatches}
}

// find returns the target of a client's URI. A URI of an unknown backend goes to the only one
// there is; among several it goes to none, since it may be a secret of one of them.
func (u *uris) find(uri string) (target, bool) {
	book := u.book.Load()
	if server, own, ok := book.named(uri); ok {
		return target{server, own}, true
	}
	if !isPlainURI(uri) {
		return target{}, false
	}
	matches := maxMatches
	server := book.owner(uri, &matches)
	if server == "" {
		server = u.links.owner(uri)
	}
	if server == "" && len(book.prefixes) == 1 {
		for only := range book.prefixes {
			server = only
		}
	}
	return target{server, uri}, server != ""
}

// uriBook maps URIs to the backends that have them. It does not change.
type uriBook struct {
	prefixes  map[string]string // by backend: "troupe+files:"
	servers   map[string]string // by prefix
	owners    map[string]string // of listed resources, by URI
	templates []bookTemplate    // the ones that stay as they are
	shared    map[string]string // the owners of templates, by URI template
}

// bookTemplate is a template that stays as it is.
type bookTemplate struct {
	server, template string
	prefix           string // of all its URIs; maybe shorter
	literal          int    // bytes of it that are no variable
	parsed           *uritemplate.Template
}

// newBook returns the book of resources and templates, in the order of the configuration: the
// first backend that lists a URI has it.
func newBook(order []string, resources, templates []target) *uriBook {
	b := &uriBook{
		prefixes: make(map[string]string, len(order)), servers: make(map[string]string, len(order)),
		owners: make(map[string]string, len(resources)), shared: make(map[string]string, len(templates)),
	}
	for _, server := range order {
		p := uriPrefix(server)
		b.prefixes[server], b.servers[p] = p, server
	}
	for _, r := range resources {
		if _, there := b.owners[r.own]; !there && isPlainURI(r.own) {
			b.owners[r.own] = r.server
		}
	}
	for _, t := range templates {
		if _, there := b.shared[t.own]; there || !isPlainURI(t.own) {
			continue
		}
		parsed, err := uritemplate.Parse(t.own)
		if err != nil {
			continue // the client's server leaves it out
		}
		b.shared[t.own] = t.server
		prefix, _, _ := strings.Cut(t.own, "{")
		if strings.ContainsFunc(prefix, func(r rune) bool { return r >= 0x80 }) { // encoded in URIs
			prefix = ""
		}
		b.templates = append(b.templates, bookTemplate{t.server, t.own, prefix, literalOf(t.own), parsed})
	}
	// The client's server tries templates in this order, and takes the first of equals.
	slices.SortFunc(b.templates, func(x, y bookTemplate) int { return strings.Compare(x.template, y.template) })
	return b
}

// literalOf returns how many bytes of a template are no variable.
func literalOf(template string) int {
	n := 0
	for rest := template; rest != ""; {
		literal, after, _ := strings.Cut(rest, "{")
		n += len(literal)
		_, rest, _ = strings.Cut(after, "}")
	}
	return n
}

// uriPrefix returns the scheme that names a backend, with the colon. A name that is no part of
// a scheme, such as one with capitals, ends with a part of a hash.
func uriPrefix(server string) string {
	clean := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, server)
	if clean != server {
		sum := sha256.Sum256([]byte(server))
		clean += "." + hex.EncodeToString(sum[:4])
	}
	return ownScheme + "+" + clean + ":"
}

// isPlainURI reports whether a URI, or a template, may stay as it is: it has a scheme that is
// not the front's.
func isPlainURI(uri string) bool {
	scheme, _, ok := strings.Cut(uri, ":")
	if !ok || scheme == "" {
		return false
	}
	for i, r := range scheme {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80
		if !letter && (i == 0 || !('0' <= r && r <= '9' || strings.ContainsRune("+-.", r))) {
			return false
		}
	}
	scheme = strings.ToLower(scheme)
	return scheme != ownScheme && !strings.HasPrefix(scheme, ownScheme+"+")
}

// listed returns the public URI of a listed resource.
func (b *uriBook) listed(t target) string {
	if b.owners[t.own] == t.server {
		return t.own
	}
	return b.prefixes[t.server] + t.own
}

// template returns the public URI template of a listed template.
func (b *uriBook) template(t target) string {
	if b.shared[t.own] == t.server {
		return t.own
	}
	return b.prefixes[t.server] + t.own
}

// named splits a URI that names its backend.
func (b *uriBook) named(uri string) (server, own string, ok bool) {
	prefix, own, ok := strings.Cut(uri, ":")
	if !ok {
		return "", "", false
	}
	server, ok = b.servers[strings.ToLower(prefix)+":"]
	return server, own, ok
}

// owner returns the backend that a request for a plain URI reaches, "" if none is known: the
// one that lists it, or else the one whose template has the longest fixed part.
func (b *uriBook) owner(uri string, matches *int) string {
	if server, ok := b.owners[uri]; ok {
		return server
	}
	best, server := -1, ""
	for i := range b.templates {
		t := &b.templates[i]
		if t.literal <= best || !strings.HasPrefix(uri, t.prefix) {
			continue
		}
		if *matches--; *matches < 0 {
			return ""
		}
		if _, ok := t.parsed.Match(uri); ok {
			best, server = t.literal, t.server
		}
	}
	return server
}

// links remembers the backends of URIs that came with results and are in no list, by the URI.
type links struct{ memo.Map[string, string] }

func newLinks() *links { return &links{memo.Map[string, string]{Max: maxLinks}} }

// claim gives a URI to a backend if no other one has it, and reports whether it has it now.
func (l *links) claim(uri, server string) (has bool) {
	l.Update(uri, 0, func(is string, known bool) (string, bool) {
		if !known {
			is = server
		}
		has = is == server
		return is, true
	})
	return has
}

// owner returns the backend of a URI, "" if none is known.
func (l *links) owner(uri string) string {
	server, _ := l.Get(uri)
	return server
}

// rewriter turns the URIs in one result of a backend into those of the front.
type rewriter struct {
	book    *uriBook
	links   *links
	server  string
	matches int // comparisons with templates that are left
}

// uri returns the public URI of a backend's URI.
func (w *rewriter) uri(uri string) string {
	if uri == "" {
		return uri
	}
	prefixed := w.book.prefixes[w.server] + uri
	if !isPlainURI(uri) || len(uri) > uritemplate.MaxURI {
		return prefixed
	}
	switch owner := w.book.owner(uri, &w.matches); {
	case owner == w.server:
		return uri
	case owner == "" && w.matches >= 0 && w.links.claim(uri, w.server):
		return uri
	}
	return prefixed
}

// blocks rewrites the URIs of links and embedded resources.
func (w *rewriter) blocks(all mcp.Contents) mcp.Contents {
	out := make(mcp.Contents, len(all))
	for i, c := range all {
		out[i] = w.block(c)
	}
	return out
}

// block rewrites one block. A block without a URI is returned as it is.
func (w *rewriter) block(c mcp.Content) mcp.Content {
	switch c := c.(type) {
	case *mcp.ResourceLink:
		own := *c
		own.URI = w.uri(c.URI)
		return &own
	case *mcp.EmbeddedResource:
		own := *c
		own.Resource.URI = w.uri(c.Resource.URI)
		return &own
	}
	return c
}
