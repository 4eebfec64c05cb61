package mcpserver

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/mcp"
)

// forms are those that were asked before: handlers ask the same few again and again.
// The zero value is ready.
type forms struct {
	mu    sync.Mutex
	known map[formKey]*form.Form
}

type formKey struct {
	schema  string
	version mcp.Version
}

// Bounds of what is kept.
const (
	maxKnownForms = 64
	maxKnownForm  = 16 << 10 // bytes of a schema
)

// parse reads a form. Several questions share it: it is not changed any more.
func (k *forms) parse(schema json.RawMessage, v mcp.Version) (*form.Form, error) {
	k.mu.Lock()
	f := k.known[formKey{string(schema), v}]
	k.mu.Unlock()
	if f != nil {
		return f, nil
	}
	f, err := form.Parse(schema, v)
	if err != nil {
		return nil, err
	}
	if len(schema) > maxKnownForm {
		return f, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= maxKnownForms { // those in use come back
		k.known = make(map[formKey]*form.Form)
	}
	k.known[formKey{string(schema), v}] = f
	return f, nil
}

// refuseSecrets refuses a form that asks for a secret (ELIC-11).
func refuseSecrets(f *form.Form) error {
	for _, field := range f.Fields {
		if field.Secret {
			return fmt.Errorf("the field %q: %w", field.Name, errSecret)
		}
	}
	return nil
}
