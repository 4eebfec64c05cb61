// lists.go: the lists of the backends, as the client sees them.

package gateway

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/troupe-dev/troupe/mcp"
)

// lists are the last good lists of all backends, and the items of them that are registered.
type lists struct {
	mu        sync.Mutex      // guards all fields and items, and is held while items are registered: the tasks of backends take turns, and requests that look for a name wait for that, as they must
	order     []string        // of the backends in the configuration
	completes map[string]bool // whether a backend has completions
	changed   chan struct{}   // closed, and replaced, when the client's lists were brought in step

	tools     items[mcp.Tool]
	resources items[mcp.Resource]
	templates items[mcp.ResourceTemplate]
	prompts   items[mcp.Prompt]
}

// items are those of one kind: tools, resources, templates or prompts.
type items[D any] struct {
	kind  string
	key   func(*D) *string             // the name or URI
	last  map[string][]D               // the last good lists, by backend
	shown map[string][sha256.Size]byte // the sums of the registered items, by public name
}

func newItems[D any](kind string, key func(*D) *string) items[D] {
	return items[D]{kind, key, map[string][]D{}, map[string][sha256.Size]byte{}}
}

func (l *lists) init() {
	l.completes, l.changed = map[string]bool{}, make(chan struct{})
	l.tools = newItems("tool", func(t *mcp.Tool) *string { return &t.Name })
	l.resources = newItems("resource", func(r *mcp.Resource) *string { return &r.URI })
	l.templates = newItems("resource template", func(t *mcp.ResourceTemplate) *string { return &t.URITemplate })
	l.prompts = newItems("prompt", func(p *mcp.Prompt) *string { return &p.Name })
}

// put changes lists under the lock.
func (l *lists) put(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *lists) setOrder(order []string) { l.put(func() { l.order = order }) }

func (l *lists) setCompletes(server string, completes bool) {
	l.put(func() { l.completes[server] = completes })
}

func (l *lists) nextChange() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// isShown reports whether an item of that name is registered.
func isShown[D any](l *lists, s *items[D], name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, shown := s.shown[name]
	return shown
}

// target is an item of a backend, by the backend's own name or URI.
type target struct{ server, own string }

// offer is one item of a backend as it goes to the client.
type offer[D any] struct {
	target
	public    string
	def       D    // with the public name
	completes bool // the backend has completions
}

// sum identifies the contents of an offer.
func (o *offer[D]) sum() ([sha256.Size]byte, error) {
	raw, err := mcp.Marshal(&o.def)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %t %s", o.server, o.own, o.completes, raw)), nil
}

// offersOf returns the items of one kind, in the order of the configuration. The caller holds mu.
func offersOf[D any](l *lists, s *items[D]) []offer[D] {
	var all []offer[D]
	for _, server := range l.order {
		for _, def := range s.last[server] {
			all = append(all, offer[D]{target: target{server, *s.key(&def)}, def: def, completes: l.completes[server]})
		}
	}
	return all
}

// rename gives each offer its public name.
func rename[D any](s *items[D], all []offer[D], name func(i int) string) {
	for i := range all {
		o := &all[i]
		o.public = name(i)
		*s.key(&o.def) = o.public
	}
}
