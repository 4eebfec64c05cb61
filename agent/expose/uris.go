// uris.go: the URIs of resources of many servers behind one endpoint.
//
// A URI that is one server's goes as it is. Where another one is before it, and for
// what has no place of its own, it goes as troupe+<server>:<uri>, by which it is found
// again without anything to remember.

package expose

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// ownScheme is that of the front's own resources, and begins those that name a server.
const ownScheme = "troupe"

// Bounds on what one result makes us look for, and on what is remembered of results.
const (
	maxMatches = 4096 // of URIs with templates, for one result
	maxLinks   = 2048 // remembered, twice
)

// uriBook says whose URIs are whose. It does not change.
type uriBook struct {
	prefixes  map[string]string // by server: "troupe+files:"
	servers   map[string]string // by prefix
	owners    map[string]string // of listed resources, by URI
	templates []bookTemplate    // those that go as they are
	shared    map[string]string // the owners of templates, by URI template
}

// bookTemplate is a template that goes as it is.
type bookTemplate struct {
	server, template string
	prefix           string // of all URIs of it; maybe shorter
	literal          int    // how much of it is no variable, in bytes
	parsed           *uritemplate.Template
}

// newBook makes a book of what the servers list, in the order of their configuration:
// the first that lists a URI has it.
func newBook(order []string, resources []mcpclient.Resource, templates []mcpclient.ResourceTemplate) *uriBook {
	b := &uriBook{
		prefixes: make(map[string]string, len(order)), servers: make(map[string]string, len(order)),
		owners: make(map[string]string, len(resources)), shared: make(map[string]string, len(templates)),
	}
	for _, server := range order {
		p := uriPrefix(server)
		b.prefixes[server], b.servers[p] = p, server
	}
	for i := range resources {
		r := &resources[i]
		if _, there := b.owners[r.Resource.URI]; !there && isPlainURI(r.Resource.URI) {
			b.owners[r.Resource.URI] = r.Server
		}
	}
	for i := range templates {
		t := &templates[i]
		if _, there := b.shared[t.Template.URITemplate]; there || !isPlainURI(t.Template.URITemplate) {
			continue
		}
		parsed, err := uritemplate.Parse(t.Template.URITemplate)
		if err != nil {
			continue // the front leaves it out
		}
		b.shared[t.Template.URITemplate] = t.Server
		prefix, _, _ := strings.Cut(t.Template.URITemplate, "{")
		if strings.ContainsFunc(prefix, func(r rune) bool { return r >= 0x80 }) { // URIs have them encoded
			prefix = ""
		}
		b.templates = append(b.templates, bookTemplate{t.Server, t.Template.URITemplate, prefix, literalOf(t.Template.URITemplate), parsed})
	}
	// The front looks for a template in this order, and takes the first of equals.
	slices.SortFunc(b.templates, func(x, y bookTemplate) int { return strings.Compare(x.template, y.template) })
	return b
}

// literalOf returns how much of a template is no variable.
func literalOf(template string) int {
	n := 0
	for rest := template; rest != ""; {
		literal, after, _ := strings.Cut(rest, "{")
		n += len(literal)
		_, rest, _ = strings.Cut(after, "}")
	}
	return n
}

// uriPrefix returns the scheme by which a URI names its server, with the colon. Names
// that are no part of a scheme get some of a hash: schemes know no case.
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

// isPlainURI reports whether a URI, or a template, may go as it is: it has a scheme, and
// not one of ours.
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

// listed returns the URI by which a resource that a server lists goes.
func (b *uriBook) listed(server, uri string) string {
	if b.owners[uri] == server {
		return uri
	}
	return b.prefixes[server] + uri
}

// template returns the URI template by which one of a server goes.
func (b *uriBook) template(server, template string) string {
	if b.shared[template] == server {
		return template
	}
	return b.prefixes[server] + template
}

// named splits a URI that names its server.
func (b *uriBook) named(uri string) (server, own string, ok bool) {
	prefix, own, ok := strings.Cut(uri, ":")
	if !ok {
		return "", "", false
	}
	server, ok = b.servers[strings.ToLower(prefix)+":"]
	return server, own, ok
}

// owner returns the server that is asked for a URI that goes as it is, "" if nobody is
// known. It is the one that a request for the URI reaches: the resource, or else the
// template with the longest fixed part.
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

// links remembers whose the URIs are that came with results and are in no list. What
// was not used for long is forgotten. It may be used from any goroutine.
type links struct {
	mu        sync.Mutex
	now, past map[string]string // the server by the URI; past is dropped when now is full
}

// claim makes a URI a server's if it is nobody else's, and reports whether it is.
func (l *links) claim(uri, server string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, known := l.find(uri)
	if !known {
		is = server
		l.keep(uri, server)
	}
	return is == server
}

// owner returns whose a URI is, "" if nobody is known.
func (l *links) owner(uri string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	server, _ := l.find(uri)
	return server
}

// find and keep are called under the lock.
func (l *links) find(uri string) (string, bool) {
	if server, ok := l.now[uri]; ok {
		return server, true
	}
	server, ok := l.past[uri]
	if ok {
		l.keep(uri, server)
	}
	return server, ok
}

func (l *links) keep(uri, server string) {
	if len(l.now) >= maxLinks {
		l.past, l.now = l.now, nil
	}
	if l.now == nil {
		l.now = make(map[string]string)
	}
	l.now[uri] = server
}

// rewriter turns the URIs of one server's result into those of the front.
type rewriter struct {
	book    *uriBook
	links   *links
	server  string
	matches int // with templates, that are left
}

// newRewriter returns a rewriter for one result.
func newRewriter(b *uriBook, l *links, server string) *rewriter {
	return &rewriter{b, l, server, maxMatches}
}

// uri returns the URI by which what a server calls uri is read at the front.
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

// blocks returns content with the URIs of links and embedded resources rewritten.
func (w *rewriter) blocks(all mcp.Contents) mcp.Contents {
	out := make(mcp.Contents, len(all))
	for i, c := range all {
		out[i] = w.block(c)
	}
	return out
}

// block returns one block; others than those with a URI are returned as they are.
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
