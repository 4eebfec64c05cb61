package mcp

import "encoding/json"

// Object is a JSON object whose presence is what counts, such as a capability
// without settings: nil is absent, Object{} is {}.
type Object map[string]json.RawMessage

// Present is an empty [Object], for capabilities that have no settings. It must
// not be written to.
var Present = Object{}

// ClientCapabilities is what a client can do. In legacy revisions it holds for
// the session, in 2026-07-28 for one request.
type ClientCapabilities struct {
	Roots        *RootsCapability           `json:"roots,omitzero"`
	Sampling     *SamplingCapability        `json:"sampling,omitzero"`
	Elicitation  *ElicitationCapability     `json:"elicitation,omitzero"`
	Tasks        *TasksCapability           `json:"tasks,omitzero"` // 2025-11-25
	Extensions   map[string]json.RawMessage `json:"extensions,omitzero"`
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"` // members we do not know
}

// ServerCapabilities is what a server offers.
type ServerCapabilities struct {
	Tools        *ToolsCapability           `json:"tools,omitzero"`
	Resources    *ResourcesCapability       `json:"resources,omitzero"`
	Prompts      *PromptsCapability         `json:"prompts,omitzero"`
	Completions  Object                     `json:"completions,omitzero"` // 2025-03-26 on
	Logging      Object                     `json:"logging,omitzero"`
	Tasks        *TasksCapability           `json:"tasks,omitzero"` // 2025-11-25
	Extensions   map[string]json.RawMessage `json:"extensions,omitzero"`
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"` // members we do not know
}

// RootsCapability says that the client answers roots/list.
type RootsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"` // legacy

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// SamplingCapability says that the client answers sampling/createMessage.
type SamplingCapability struct {
	Tools   Object `json:"tools,omitzero"`   // 2025-11-25 on
	Context Object `json:"context,omitzero"` // 2025-11-25 on

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ElicitationCapability says that the client answers elicitation/create. With
// neither member it means form mode; see [ClientCapabilities.ElicitForm].
type ElicitationCapability struct {
	Form Object `json:"form,omitzero"`
	URL  Object `json:"url,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ToolsCapability says that the server has tools.
type ToolsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// PromptsCapability says that the server has prompts.
type PromptsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ResourcesCapability says that the server has resources.
type ResourcesCapability struct {
	Subscribe   bool `json:"subscribe,omitzero"`
	ListChanged bool `json:"listChanged,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// TasksCapability is the core task support of 2025-11-25.
type TasksCapability struct {
	List     Object        `json:"list,omitzero"`
	Cancel   Object        `json:"cancel,omitzero"`
	Requests *TaskRequests `json:"requests,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// TaskRequests lists which requests may be augmented with a task.
type TaskRequests struct {
	Tools       *TaskToolRequests        `json:"tools,omitzero"`
	Sampling    *TaskSamplingRequests    `json:"sampling,omitzero"`
	Elicitation *TaskElicitationRequests `json:"elicitation,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// TaskToolRequests are the tool requests of [TaskRequests].
type TaskToolRequests struct {
	Call Object `json:"call,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// TaskSamplingRequests are the sampling requests of [TaskRequests].
type TaskSamplingRequests struct {
	CreateMessage Object `json:"createMessage,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// TaskElicitationRequests are the elicitation requests of [TaskRequests].
type TaskElicitationRequests struct {
	Create Object `json:"create,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ElicitForm reports whether form elicitation is declared. An empty
// elicitation capability means form mode. c may be nil.
func (c *ClientCapabilities) ElicitForm() bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// ElicitURL reports whether URL elicitation is declared. c may be nil.
func (c *ClientCapabilities) ElicitURL() bool {
	return c != nil && c.Elicitation != nil && c.Elicitation.URL != nil
}

// SamplingTools reports whether sampling with tools is declared. c may be nil.
func (c *ClientCapabilities) SamplingTools() bool {
	return c != nil && c.Sampling != nil && c.Sampling.Tools != nil
}

// Extension returns the settings of an extension, and whether it is declared. c may be nil.
func (c *ClientCapabilities) Extension(id string) (json.RawMessage, bool) {
	if c == nil {
		return nil, false
	}
	settings, ok := c.Extensions[id]
	return settings, ok
}

// Extension returns the settings of an extension, and whether it is declared. c may be nil.
func (c *ServerCapabilities) Extension(id string) (json.RawMessage, bool) {
	if c == nil {
		return nil, false
	}
	settings, ok := c.Extensions[id]
	return settings, ok
}

// For returns c without what revision v does not have. Extensions and
// experimental members stay: they are data to every revision.
func (c *ClientCapabilities) For(v Version) *ClientCapabilities {
	if c == nil {
		return nil
	}
	d := *c // inlined: where the copy does not outlive the caller it takes no memory
	d.limitTo(v)
	return &d
}

// limitTo changes c into c.For(v).
func (c *ClientCapabilities) limitTo(v Version) {
	if !v.Has(FeatureCoreTasks) {
		c.Tasks = nil
	}
	if c.Roots != nil && !v.Has(FeatureHandshake) {
		c.Roots = &RootsCapability{Extra: c.Roots.Extra}
	}
	if c.Sampling != nil && !v.Has(FeatureSamplingTools) {
		c.Sampling = &SamplingCapability{Extra: c.Sampling.Extra}
	}
	switch {
	case !v.Has(FeatureElicitation), !v.Has(FeatureURLElicitation) && !c.ElicitForm():
		c.Elicitation = nil
	case c.Elicitation != nil && !v.Has(FeatureURLElicitation):
		c.Elicitation = &ElicitationCapability{Extra: c.Elicitation.Extra}
	}
}

// For returns c without what revision v does not have.
func (c *ServerCapabilities) For(v Version) *ServerCapabilities {
	if c == nil {
		return nil
	}
	d := *c
	if !v.Has(FeatureCoreTasks) {
		d.Tasks = nil
	}
	if !v.Has(FeatureCompletions) {
		d.Completions = nil
	}
	return &d
}

// ExtensionTasks and ExtensionUI are the ids of the official extensions that
// this package has types or rules for.
const (
	ExtensionTasks = "io.modelcontextprotocol/tasks"
	ExtensionUI    = "io.modelcontextprotocol/ui"
)
