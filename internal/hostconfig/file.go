package hostconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxFileBytes bounds a configuration file.
const MaxFileBytes = 4 << 20

const (
	maxServers  = 1000 // of a file; inputs as well
	maxWarnings = 50
	maxShown    = 80       // bytes of a text of the file in a message
	maxFaults   = 20       // of a server
	maxExpanded = 16 << 20 // bytes of all expanded texts of a file
)

// MaxInstances is the most that [Server].Instances may be.
const MaxInstances = 64

// Kinds of transport, in [Server.Type].
const (
	TypeStdio = "stdio"
	TypeHTTP  = "http"
	TypeSSE   = "sse"
)

// Server is one configured server. Its texts are expanded, unless it is
// disabled or Err is set.
type Server struct {
	Name string
	// Type is TypeStdio, TypeHTTP or TypeSSE. Empty, with a URL: HTTP, and SSE if that fails.
	Type string
	// Disabled servers are kept and not started.
	Disabled    bool
	Description string

	// Command is looked up in PATH. It and Args are never given to a shell.
	Command string
	Args    []string
	// Env is added to a minimal environment; nil removes a variable. It
	// includes the variables of EnvFile that the file itself does not set.
	Env     map[string]*string
	EnvFile string // absolute; empty if none
	Dir     string // absolute; where the command runs

	URL     string            // http, https, unix or pipe
	InURL   map[string]string // the values that variables have put into URL, by how they are written, such as ${KEY}
	Headers map[string]string
	// HeadersHelper is a command that prints headers as JSON when connecting.
	HeadersHelper string
	OAuth         json.RawMessage // as it stands in the file
	Authorization Authorization   // what it says

	Timeout time.Duration // of a call; zero if not said
	// Instances bounds the processes among which calls are distributed, HeldInstances the further ones
	// while calls on as many wait for a person; zero if not said, HeldInstances below zero for none.
	// NoAsk says that the server asks neither a person nor a model anything.
	Instances, HeldInstances int
	NoAsk                    bool
	Allow                    []string // only these tools; nil is all
	Deny                     []string // not these tools, even if allowed
	// TrustAll and TrustTools are proposals to a human: the file asks for it,
	// which is no consent.
	TrustAll   bool
	TrustTools []string
	DeferTools string // auto, never, always or empty
	// Sandbox is asked for: a host that has none must not start the server.
	Sandbox bool
	// MaxMessage bounds a message in bytes; zero if not said.
	MaxMessage int
	// NoInstructions keeps the server's instructions from models.
	NoInstructions bool
	// Warnings name ignored parts of the definition, and what to do about them.
	Warnings []string

	// Unknown are the members that no field has.
	Unknown map[string]json.RawMessage

	File string // absolute path of the configuration
	Line int    // of the name in it, from 1
	// Reach is what the definition starts, contacts and sends, before expansion.
	Reach *Reach
	// Hash is that of Reach: approvals are for a file, a name and a hash. EarlierHash is by the rule of
	// older versions, the same for most definitions.
	Hash, EarlierHash string
	// Err says why this server cannot be used; one or more [*ConfigError].
	Err error
}

// MaxMessage is the largest bound on a message that a file may set, in bytes.
const MaxMessage = 1 << 30

// Input is a value that a VS Code file asks its user for.
type Input struct {
	ID          string
	Type        string // promptString, pickString or command
	Description string
	Default     string
	Password    bool
	Options     []string // of pickString
	Line        int
}

// File is one configuration file.
type File struct {
	Path     string   // absolute
	Servers  []Server // in the order of the file
	Inputs   []Input
	Warnings []string // about ignored parts; each once
}

// Options says which values expansion may use; nil is the same as the zero value.
type Options struct {
	// LookupEnv finds a variable. Nil is os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Input asks for the value of ${input:id}, once for each id, after the
	// environment variable TROUPE_INPUT_ID. Nil never asks: the value is missing.
	// It is called while reading: a host that asks for approval first reads the
	// file without it, then again with it.
	Input func(Input) (string, error)
	// WorkspaceFolder is ${workspaceFolder}. Empty is the directory of the
	// file, or the one above if that is .vscode, .cursor or .gemini. Relative
	// paths, and commands without cwd, use that directory in any case.
	WorkspaceFolder string
	// UserHome is ${userHome}. Empty is os.UserHomeDir.
	UserHome string
	// Raw keeps variables as they stand, to show or copy a definition: nothing is
	// expanded, made absolute or read.
	Raw bool
}

var (
	// ErrUnset says that a variable has no value and no default.
	ErrUnset = errors.New("variable is not set")
	// ErrInput says that the value of an input must come from a human, or from the environment.
	ErrInput = errors.New("input has no value")
	// ErrNoServers says that a file has no list of servers at all.
	ErrNoServers = errors.New("no servers in the file")
)

// ConfigError is a fault in a file: where it is, and how to mend it.
type ConfigError struct {
	File   string
	Line   int    // from 1; 0 if it is about the file
	Col    int    // in characters, from 1
	Server string // empty if it is about the file
	Field  string // such as env.TOKEN or args[1]
	Err    error
}

func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Server != "" {
		fmt.Fprintf(&b, "server %q: ", e.Server)
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Err.Error()
}

func (e *ConfigError) Unwrap() error { return e.Err }
