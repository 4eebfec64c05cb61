package mcpserver

import (
	"cmp"
	"slices"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
)

// deferredWork is the work of a request whose middleware may wait: the tool, prompt or
// resource is looked up when the middleware calls next.
type deferredWork struct {
	label   string
	method  method
	arrival *arrival // a copy
	found   work     // nil until find; of the goroutine of the call
}

func (l *deferredWork) name() string          { return l.label }
func (l *deferredWork) asks() bool            { return true }
func (l *deferredWork) speed() *offered.Speed { return nil }
func (l *deferredWork) scopes() []string      { return nil }          // those of what find finds count
func (l *deferredWork) run(*request) error    { return errOddResult } // see find

// beginDeferred is begin for a method whose middleware may wait.
func beginDeferred(s *session, a *arrival, row method) error {
	own := a.apart()
	r := &request{
		session: s, port: a.port, version: a.version, client: a.client, principal: a.principal, optional: &noOptional,
		work: &deferredWork{label: a.label(), method: row, arrival: own},
	}
	switch {
	case a.Method == mcp.MethodReadResource:
		r.arguments = own.URI
	case a.Method == mcp.MethodCallTool && (own.Arguments == nil || string(own.Arguments) == "null"):
		r.arguments = []byte("{}")
	case a.Method == mcp.MethodCallTool || a.Method == mcp.MethodGetPrompt:
		r.arguments = own.Arguments
	}
	if !a.Progress.IsZero() || a.InputResponses != nil || a.RequestState != nil {
		r.optional = &optional{token: a.Progress, responses: a.InputResponses, state: a.RequestState}
	}
	if a.reader != nil {
		r.port = s
	}
	return s.beginElsewhere(r, a, 2*int64(len(a.Params)))
}

// apart returns a copy that does not refer to the frame.
func (a *arrival) apart() *arrival {
	m := *a.Message
	for _, part := range []*[]byte{(*[]byte)(&m.Params), (*[]byte)(&m.Name), (*[]byte)(&m.Arguments), (*[]byte)(&m.URI),
		(*[]byte)(&m.TaskID), (*[]byte)(&m.Task), (*[]byte)(&m.InputResponses), (*[]byte)(&m.RequestState), (*[]byte)(&m.Meta)} {
		*part = slices.Clone(*part)
	}
	return &arrival{Message: &m, version: a.version, client: a.client, principal: a.principal}
}

// label is the name of the request in logs and for middleware.
func (a *arrival) label() string {
	if a.Method == mcp.MethodComplete {
		var p mcp.CompleteParams
		if a.DecodeParams(&p) != nil {
			return "" // it is refused later
		}
		return cmp.Or(p.Ref.Name, p.Ref.URI)
	}
	name, _ := a.NameString()
	uri, _ := a.URIString()
	return cmp.Or(name, uri)
}

// find looks up the work of the request. It must be called before job.
func (r *request) find() (err error) {
	l, ok := r.work.(*deferredWork)
	switch {
	case !ok:
	case l.method.find != nil:
		if l.found, err = l.method.find(r.session, l.arrival); err == nil {
			err = permit(r.session, l.arrival, r.Method(), l.label, l.found.scopes())
		}
	default:
		l.found = &answering{l}
	}
	return err
}

// job returns the work that find has found.
func (r *request) job() work {
	if l, ok := r.work.(*deferredWork); ok {
		return l.found
	}
	return r.work
}

// answering is the work of a method that needs none without a waiting middleware.
type answering struct{ *deferredWork }

func (w *answering) asks() bool { return false }

func (w *answering) run(r *request) error {
	result, err := w.method.quick(r.session, w.arrival)
	if err != nil {
		return err
	}
	r.respondRaw(result)
	return nil
}
