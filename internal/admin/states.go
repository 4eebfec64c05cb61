package admin

import (
	"context"
	"encoding/json"
	"time"
)

// Inspector shows the servers and models of a process. Its methods may be called from any goroutine.
type Inspector interface {
	// Servers returns all servers, without their tools.
	Servers() []ServerState
	// Server returns a server with its tools, or [ErrNoServer].
	Server(ctx context.Context, name string) (*ServerDetail, error)
	// Reconnect connects to a server now, unless it is connected. It does not wait.
	Reconnect(name string) error
	// Providers returns the providers of models, by name.
	Providers() []ProviderState
}

// ServerState is how a server of a process stands: an entry of the answer of GET /servers.
type ServerState struct {
	Name      string          `json:"name"` // in the configuration
	State     string          `json:"state"`
	Since     time.Time       `json:"since,omitzero"`
	Era       string          `json:"era,omitempty"`
	Revision  string          `json:"revision,omitempty"`
	Software  string          `json:"software,omitempty"` // as it calls itself, with its version
	Connected uint64          `json:"connected"`          // how often it was connected to, attempts included
	Failures  int             `json:"failures,omitzero"`  // attempts since it was ready
	Error     string          `json:"error,omitempty"`    // of the last connection or attempt
	ListError string          `json:"listError,omitempty"`
	Login     string          `json:"login,omitempty"` // that a person has to make: where
	Command   string          `json:"command,omitempty"`
	Tools     int             `json:"tools"`
	Waiting   int             `json:"waiting,omitzero"` // calls that wait for one of its processes
	Warnings  []string        `json:"warnings,omitempty"`
	Instances []InstanceState `json:"instances,omitempty"`
}

// InstanceState is one of the processes of a server.
type InstanceState struct {
	Number int    `json:"number"`
	State  string `json:"state"`
	Calls  int    `json:"calls"`
}

// ServerDetail is the answer of GET /servers/{name}.
type ServerDetail struct {
	ServerState
	Capabilities json.RawMessage `json:"capabilities,omitzero"`
	Instructions string          `json:"instructions,omitempty"` // to models
	// All is its tools; More is how many are left out.
	All  []ToolState `json:"all"`
	More int         `json:"more,omitzero"`
	// Log is the last lines that it has written.
	Log string `json:"log,omitempty"`
}

// ToolState is a tool of a server, in text that hides no character.
type ToolState struct {
	Name        string   `json:"name"` // for models
	Description string   `json:"description,omitempty"`
	Definition  string   `json:"definition"`
	Hash        string   `json:"hash"`
	Pin         string   `json:"pin"`              // [PinNone], [PinSame] or [PinChanged]
	Before      string   `json:"before,omitempty"` // the definition that is pinned, of a tool that has changed, where it is known
	Warnings    []string `json:"warnings,omitempty"`
}

// How a tool stands against the definition that was accepted: [ToolState].Pin.
const (
	PinNone    = "never called"
	PinSame    = "as accepted"
	PinChanged = "changed"
)

// ProviderState is how a provider of models stands: an entry of the answer of GET /models.
type ProviderState struct {
	Name     string    `json:"name"` // empty for models that name no provider
	InFlight int       `json:"inFlight"`
	Waiting  int       `json:"waiting"`
	Circuit  string    `json:"circuit"`
	Failures int       `json:"failures,omitzero"` // in a row
	Until    time.Time `json:"until,omitzero"`    // an open circuit lets no request through
	Class    string    `json:"class,omitempty"`   // why it is away: of its error, such as "unreachable" or "auth"; empty if it works
	Since    time.Time `json:"since,omitzero"`    // it is away
	Error    string    `json:"error,omitempty"`
}
