// methods.go: the table of the methods, and how their calls find tools, prompts and resources.

package mcpserver

import (
	"bytes"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// methods are the methods of the server. Package mcp knows which revision has which; the
// server declares the capabilities of these methods (CAP-08).
var methods map[string]method

func init() { // not a literal: the methods refer to the table
	methods = map[string]method{
		mcp.MethodInitialize:  {quick: initialize},
		mcp.MethodPing:        {quick: ping},
		mcp.MethodSetLevel:    {quick: setLevel},
		mcp.MethodDiscover:    {quick: discover},
		mcp.MethodListen:      {start: startListen},
		mcp.MethodSubscribe:   {quick: subscribe, waits: true},
		mcp.MethodUnsubscribe: {quick: unsubscribe, waits: true},

		mcp.MethodListTools:             {quick: listTools, waits: true, declared: (*Server).hasTools},
		mcp.MethodCallTool:              {start: callTool, find: findTool, declared: (*Server).hasTools},
		mcp.MethodListResources:         {quick: listResources, waits: true, declared: (*Server).hasResources},
		mcp.MethodListResourceTemplates: {quick: listTemplates, waits: true, declared: (*Server).hasResources},
		mcp.MethodReadResource:          {start: readResource, find: findResource, declared: (*Server).hasResources},
		mcp.MethodListPrompts:           {quick: listPrompts, waits: true, declared: (*Server).hasPrompts},
		mcp.MethodGetPrompt:             {start: getPrompt, find: findPrompt, declared: (*Server).hasPrompts},
		mcp.MethodComplete:              {start: startComplete, find: findCompleter, declared: (*Server).hasCompletions},
		mcp.MethodGetTask:               {start: getTask, declared: (*Server).hasTasks},
		mcp.MethodTaskResult:            {start: resultOfTask, declared: (*Server).hasTasks},
		mcp.MethodListTasks:             {start: listTasks, declared: (*Server).hasTasks},
		mcp.MethodCancelTask:            {start: cancelTask, declared: (*Server).hasTasks},
		mcp.MethodUpdateTask:            {start: updateTask, declared: (*Server).hasTasks},
		mcp.MethodListSkills:            {quick: listSkills, waits: true, declared: (*Server).hasSkills},
		mcp.MethodGetSkill:              {quick: getSkill, waits: true, declared: (*Server).hasSkills},
		mcp.MethodReadDirectory:         {quick: readDirectory, waits: true, declared: (*Server).hasSkills},
	}
}

// offers returns an error unless the revision and the server have the method (BASE-14, CAP-07).
func (s *Server) offers(v mcp.Version, name string) error {
	if name == mcp.MethodCallTool && s.hasTools() { // every revision has it, and it is the most frequent one
		return nil
	}
	row, ok := methods[name]
	if !ok || !v.Method(name, mcp.Client) || row.declared != nil && !row.declared(s) {
		return mcp.Errorf(mcp.CodeMethodNotFound, "method not found")
	}
	return nil
}

// ping responds in every state (PING-01).
func ping(s *session, _ *arrival) ([]byte, error) { return []byte("{}"), nil }

// callTool begins a call (TOOL-07).
func callTool(s *session, a *arrival) (lost bool, err error) {
	w, err := findTool(s, a)
	if err != nil {
		return false, err
	}
	return s.begin(a, w, a.Arguments)
}

// findTool finds the tool of a call, or the task that the call becomes.
func findTool(s *session, a *arrival) (work, error) {
	t, ok := s.toolNamed(a)
	if string(a.Arguments) == "null" { // clients write an absent map so
		a.Arguments = nil
	}
	if !ok || a.Arguments != nil && a.Arguments[0] != '{' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "a tool call takes a name and an object of arguments") // TOOL-08
	}
	if t == nil {
		name, _ := a.NameString()
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown tool %q", clip.Name(name))
	}
	if a.Arguments == nil {
		a.Arguments = []byte("{}")
	}
	if t.Def.Execution != nil || a.Task != nil {
		return asTask(s, a, t)
	}
	return t, nil
}

// toolNamed finds the tool of a call, nil if it is unknown; false if the name is not a
// string. It does not copy a name without escapes.
func (s *session) toolNamed(a *arrival) (*tool, bool) {
	tools, raw := s.server.tools.Now(), a.Name
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		t, _ := tools.GetBytes(raw[1 : len(raw)-1])
		return t, true
	}
	name, ok := a.NameString()
	t, _ := tools.Get(name)
	return t, ok
}

// getPrompt begins prompts/get.
func getPrompt(s *session, a *arrival) (lost bool, err error) {
	w, err := findPrompt(s, a)
	if err != nil {
		return false, err
	}
	return s.begin(a, w, a.Arguments)
}

func findPrompt(s *session, a *arrival) (work, error) {
	name, ok := a.NameString()
	if !ok || a.Arguments != nil && a.Arguments[0] != '{' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "a prompt takes a name and an object of arguments")
	}
	p, ok := s.server.prompts.Now().Get(name)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown prompt %q", clip.Name(name)) // PRM-03
	}
	return p, nil
}

// readResource begins resources/read.
func readResource(s *session, a *arrival) (lost bool, err error) {
	w, err := findResource(s, a)
	if err != nil {
		return false, err
	}
	return s.begin(a, w, a.URI)
}

// findResource finds a resource, or else the template that fits best.
func findResource(s *session, a *arrival) (work, error) {
	uri, ok := a.URIString()
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "reading a resource takes a uri")
	}
	if r, ok := s.server.resources.Now().Get(uri); ok {
		return &reading{supply: &r.supply, uri: uri}, nil
	}
	if f, ok := s.server.skillTree.files(s.server.skills).Files[uri]; ok {
		return &reading{supply: s.server.skillTree.supply(f), uri: uri}, nil
	}
	if err := registry.CheckURI(uri); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	t, vars := s.server.templateFor(uri)
	others := s.server.others.Load()
	switch {
	case registry.Climbs(uri):
	case t != nil:
		return &reading{supply: &t.supply, uri: uri, vars: vars}, nil
	case others != nil:
		return &reading{supply: others, uri: uri}, nil
	}
	return nil, mcp.ResourceNotFound(a.version, uri)
}

// startComplete begins completion/complete.
func startComplete(s *session, a *arrival) (lost bool, err error) {
	w, err := findCompleter(s, a)
	if err != nil {
		return false, err
	}
	return s.begin(a, w, nil)
}

func findCompleter(s *session, a *arrival) (work, error) {
	w := &completing{params: new(mcp.CompleteParams)}
	if err := a.DecodeParams(w.params); err != nil {
		return nil, err
	}
	if err := w.find(s.server); err != nil {
		return nil, err
	}
	return w, nil
}
